#pragma once

#include <map>
#include <string>

namespace weft {

/// Network interfaces over which the processes of a run send tensors. A value.
struct DataInterfaces {
  std::map<std::string, std::string> by_host;
  std::string driver;

  /// Empty where the transport is to choose.
  std::string of(const std::string& host) const {
    const auto found = by_host.find(host);
    return found == by_host.end() ? "" : found->second;
  }
};

}  // namespace weft
