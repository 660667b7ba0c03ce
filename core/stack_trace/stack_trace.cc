// libweft_stack.so: writes the stack of a crashed process, with names from its debug information.
// Only this library uses libdw; programs load it on a crash only.

#include <unistd.h>

#include <backward.hpp>
#include <filesystem>
#include <string>
#include <thread>

#include "core/crash/stack_library.h"
#include "core/stack_trace/internal/interrupted.h"

namespace weft {
namespace {

/// Number of functions printed. A parent process shows the last 20 lines of a child's log.
constexpr std::size_t kFrames = 12;
constexpr std::size_t kLongestName = 100;

/// Returns "#3 weft::mesh::Interpreter::execute (interpreter.cc:159)".
std::string describe(std::size_t number, const backward::ResolvedTrace& frame) {
  std::string function =
      frame.source.function.empty() ? frame.object_function : frame.source.function;
  if (function.size() > kLongestName) function = function.substr(0, kLongestName - 3) + "...";
  std::string line =
      "  #" + std::to_string(number) + " " + (function.empty() ? "?" : function) + " (";
  const std::filesystem::path file =
      frame.source.filename.empty() ? frame.object_filename : frame.source.filename;
  line += file.filename().string();
  if (!frame.source.filename.empty()) line += ":" + std::to_string(frame.source.line);
  return line + ")\n";
}

void write(backward::StackTrace& trace) {
  backward::TraceResolver resolver;
  resolver.load_stacktrace(trace);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::string line = describe(i, resolver.resolve(trace[i]));
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  }
}

}  // namespace
}  // namespace weft

extern "C" [[gnu::visibility("default")]] void weft_stack_plugin(void* context, void* address) {
  static_assert(std::is_same_v<decltype(&weft_stack_plugin), weft::WriteStack>);
  backward::StackTrace trace;
  trace.load_from(weft::internal::interrupted(context), weft::kFrames, context, address);
  // The handler may run on a small alternate stack, which a library has set. libdw needs more than
  // that for the lines of a large source.
  std::thread([&trace] { weft::write(trace); }).join();
}
