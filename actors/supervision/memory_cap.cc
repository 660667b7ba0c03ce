#include "actors/supervision/memory_cap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <new>
#include <string_view>

#include "core/base/units.h"

namespace weft::actors {
namespace {

constexpr const char* kVariable = "WEFT_MEMORY_CAP";

/// Text of OutOfMemory. Made in advance: a new-handler has no argument and no memory to make it.
std::array<char, 256> out_of_memory_text{};

class OutOfMemory final : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return out_of_memory_text.data(); }
};

[[noreturn]] void throw_with_cap() { throw OutOfMemory(); }

}  // namespace

std::string to_string(CapKind kind) {
  switch (kind) {
    case CapKind::kControlGroupV2: return "cgroup v2";
    case CapKind::kControlGroupV1: return "cgroup v1";
    case CapKind::kDataLimit: return "RLIMIT_DATA";
    case CapKind::kNone: break;
  }
  return "none";
}

std::string MemoryCap::describe() const {
  return bytes == 0 ? "none" : fmt::format("{} ({})", format_bytes(bytes), to_string(kind));
}

MemoryCap own_memory_cap() {
  const char* variable = std::getenv(kVariable);
  if (variable == nullptr) return {};
  const std::string_view text = variable;  // "268435456 RLIMIT_DATA"
  MemoryCap cap;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cap.bytes);
  const std::string_view rest = text.substr(end - text.data());
  for (const CapKind kind :
       {CapKind::kControlGroupV2, CapKind::kControlGroupV1, CapKind::kDataLimit}) {
    const std::string name = " " + to_string(kind);
    if (error != std::errc() || !rest.starts_with(name)) continue;
    cap.kind = kind;
    cap.fallback_reason = rest.substr(std::min(rest.size(), name.size() + 1));
    return cap;
  }
  return {};
}

std::string to_environment(const MemoryCap& cap) {
  return fmt::format("{}={} {}{}{}", kVariable, cap.bytes, to_string(cap.kind),
                     cap.fallback_reason.empty() ? "" : " ", cap.fallback_reason);
}

void set_out_of_memory_message(const MemoryCap& cap, const std::string& label) {
  if (cap.kind != CapKind::kDataLimit) return;
  const auto written = fmt::format_to_n(
      out_of_memory_text.data(), out_of_memory_text.size() - 1,
      "out of memory: {:.100} reached its cap of {} (cluster.memory, RLIMIT_DATA); raise "
      "cluster.memory, or reduce the memory that it needs",
      label, format_bytes(cap.bytes));
  *written.out = '\0';
  std::set_new_handler(throw_with_cap);
}

bool reports_out_of_memory(const std::string& line) {
  return std::ranges::any_of(
      std::array<std::string_view, 4>{"out of memory", "std::bad_alloc", "Cannot allocate memory",
                                      "of memory left for"},
      [&](std::string_view words) { return line.find(words) != std::string::npos; });
}

}  // namespace weft::actors
