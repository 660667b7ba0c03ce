#pragma once

#include <map>
#include <string>

namespace weft {

/// Network interfaces over which the processes of a run send tensors.
struct DataInterfaces {
  std::map<std::string, std::string> by_host;
  std::string driver;

  /// Returns the interface of a host. Empty if the transport should choose.
  std::string of(const std::string& host) const {
    const auto found = by_host.find(host);
    return found == by_host.end() ? "" : found->second;
  }
};

}  // namespace weft
