#pragma once

#include <filesystem>
#include <string_view>

namespace weft {

/// Makes a folder and its missing parents. Does nothing if it exists. Throws Error(kUnavailable)
/// with the system's reason and a remedy for it: "cannot make the folder out/logs: Permission
/// denied; let this user write there, or choose another folder with --out". `alternative`: what
/// else a user can do, such as "choose another folder with --out"; may be empty.
void make_folders(const std::filesystem::path& folder, std::string_view alternative = {});

}  // namespace weft
