#include "apps/train/app_sections.h"

#include "core/base/error.h"

namespace weft::apps {

void AppSections::read(const std::string& key, const std::function<void()>& parse) {
  root_.hand_on(key);
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    problems_ += (problems_.empty() ? "" : "\n") + error.message();
  }
}

void AppSections::finish() const {
  if (!problems_.empty()) throw Error(ErrorCode::kInvalidConfig, problems_);
}

}  // namespace weft::apps
