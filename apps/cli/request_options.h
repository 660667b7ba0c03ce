#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// Adds the options that describe one resharding to a command, the same for all commands, under a
/// heading of its help. Returns all but --rate, which has a meaning without a resharding too where
/// there are other things to measure.
std::vector<CLI::Option*> add_request_options(CLI::App& command, ReshardRequest& request,
                                              const std::string& heading);

}  // namespace weft::apps
