#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft::actors {

/// Returns the command that starts a role of an app: `APP --weft-role=ROLE --config FILE --set ..`.
std::vector<std::string> app_command(const std::filesystem::path& app, const std::string& role,
                                     const std::filesystem::path& run_file,
                                     const std::vector<std::string>& overrides,
                                     const std::filesystem::path& config_folder);

/// Runs a role of an app, with the arguments `more`, with the terminal of this process, and returns
/// its exit status.
int run_app_role(const std::filesystem::path& app, const std::string& role,
                 const std::filesystem::path& run_file, const std::vector<std::string>& overrides,
                 const std::vector<std::string>& more,
                 const std::filesystem::path& config_folder = {});

}  // namespace weft::actors
