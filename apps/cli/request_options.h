#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// Adds the options that describe one resharding, under a heading of the help. Returns all but
/// --rate, which has a meaning without a resharding in commands that measure.
std::vector<CLI::Option*> add_request_options(CLI::App& command, ReshardRequest& request,
                                              const std::string& heading);

}  // namespace weft::apps
