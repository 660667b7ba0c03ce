#include "actors/launch/check_report.h"

#include <string_view>

namespace weft::actors {
namespace {

constexpr std::string_view kRestartable = "restartable";

}  // namespace

std::string CheckReport::to_text() const {
  return std::string(restartable ? kRestartable : "") + "\n" + plan_digest;
}

CheckReport CheckReport::parse(const std::string& text) {
  const auto end = text.find('\n');
  return {std::string_view(text).substr(0, end) == kRestartable,
          end == std::string::npos ? "" : text.substr(end + 1)};
}

}  // namespace weft::actors
