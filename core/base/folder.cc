#include "core/base/folder.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "core/base/error.h"

namespace weft {
namespace {

/// Returns what a user can do about an error of making a folder; empty if it is unknown.
std::string remedy_for(const std::error_code& failed) {
  if (failed == std::errc::no_space_on_device || failed.value() == EDQUOT)
    return "free space there";
  if (failed == std::errc::permission_denied || failed == std::errc::operation_not_permitted)
    return "let this user write there";
  if (failed == std::errc::not_a_directory || failed == std::errc::file_exists)
    return "remove the file of that name, or of the name of a parent";
  return "";
}

}  // namespace

void make_folders(const std::filesystem::path& folder, std::string_view alternative) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed) return;
  std::string advice = remedy_for(failed);
  if (!alternative.empty())
    advice += std::string(advice.empty() ? "" : ", or ") + std::string(alternative);
  throw_error(ErrorCode::kUnavailable, "cannot make the folder {}: {}{}{}", folder.string(),
              failed.message(), advice.empty() ? "" : "; ", advice);
}

}  // namespace weft
