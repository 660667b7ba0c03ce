#pragma once

#include <string>

#include "actors/system/system.h"
#include "tests/support/cluster_token.h"

namespace weft::test {

/// Returns the options of a process with this name and the tests' cluster token.
inline actors::SystemOptions system_options(const std::string& name) {
  actors::SystemOptions options;
  options.name = name;
  options.token = cluster_token();
  return options;
}

}  // namespace weft::test
