#include "core/config/config_sections.h"

#include "core/base/error.h"
#include "core/config/internal/config_tree.h"

namespace weft {

void ConfigSections::read(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const internal::OutlineSectionEnd&) {
    // The section has read all of its keys.
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig || root_.is_outline()) throw;
    problems_ += (problems_.empty() ? "" : "\n") + error.message();
  }
}

void ConfigSections::finish() const {
  if (root_.is_outline()) throw internal::OutlineSectionEnd();
  if (!problems_.empty()) throw Error(ErrorCode::kInvalidConfig, problems_);
}

}  // namespace weft
