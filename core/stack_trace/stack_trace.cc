// libweft_stack.so: the functions under way in a process that crashes, named by its debug
// information. The only user of libdw, which no program loads before it crashes.

#include <unistd.h>

#include <backward.hpp>
#include <filesystem>
#include <string>

#include "core/crash/stack_library.h"
#include "core/stack_trace/internal/interrupted.h"

namespace weft {
namespace {

/// Functions that are printed. A parent looks at the last 20 lines of a log for the cause.
constexpr std::size_t kFrames = 12;
constexpr std::size_t kLongestName = 100;

/// "#3 weft::mesh::Interpreter::execute (interpreter.cc:159)".
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

}  // namespace
}  // namespace weft

extern "C" [[gnu::visibility("default")]] void weft_stack_plugin(void* context, void* address) {
  static_assert(std::is_same_v<decltype(&weft_stack_plugin), weft::WriteStack>);
  backward::StackTrace trace;
  trace.load_from(weft::internal::interrupted(context), weft::kFrames, context, address);
  backward::TraceResolver resolver;
  resolver.load_stacktrace(trace);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::string line = weft::describe(i, resolver.resolve(trace[i]));
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  }
}
