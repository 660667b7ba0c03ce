#include "actors/system/internal/refusal_log.h"

#include <fmt/format.h>

namespace weft::actors {

void RefusalLog::refused(const Address& from, const std::string& why) {
  warn(fmt::format("refused a connection from {}: {}", to_string(from), why));
}

void RefusalLog::warn(const std::string& text) {
  const auto held_back = limit_.admit();
  if (!held_back) return;
  const std::string line =
      text + (*held_back == 0
                  ? ""
                  : fmt::format(" ({} more refusals since the last such line)", *held_back));
  log_.warning("{}", line);
  if (callback_) callback_(line);
}

}  // namespace weft::actors
