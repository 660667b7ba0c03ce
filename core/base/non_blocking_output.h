#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "core/base/clock.h"

namespace weft {

/// Stdio stream onto a descriptor whose reader may hang up or stop reading. Writing to it never
/// blocks and never fails.
///
/// Text is written at once as far as the reader accepts it. A thread buffers the rest, at most
/// kMaxBufferedBytes, until the reader continues. Text beyond that is dropped, and a line reports
/// the number of bytes. Text is dropped if the reader has hung up. file() is thread-safe.
class NonBlockingStream final {
 public:
  /// Largest number of bytes buffered for the reader, besides those in a pipe or a terminal.
  static constexpr std::size_t kMaxBufferedBytes = 256 * 1024;

  /// Borrows `descriptor`, which must stay open.
  explicit NonBlockingStream(int descriptor);
  NonBlockingStream(const NonBlockingStream&) = delete;
  NonBlockingStream& operator=(const NonBlockingStream&) = delete;
  /// Keeps file() valid for threads that still print. Text that the reader does not accept at once
  /// is dropped from now on.
  ~NonBlockingStream();

  std::FILE* file() const { return file_; }
  /// Flushes file() and blocks until the reader has accepted all text; returns true then. Gives up
  /// if the reader accepts nothing for `patience`, or after four times that.
  bool drain(Nanoseconds patience);

 private:
  class Writer;
  static void* keep(std::shared_ptr<Writer> writer);

  const std::shared_ptr<Writer> writer_;  // shared with its thread, which may block in a write
  std::FILE* file_;
};

/// Standard output and error of a process that must not stall or exit because of their readers.
///
/// Construct once, first in main() or in the entry of a child process. Replaces `stdout` and
/// `stderr` by NonBlockingStreams for the rest of the process. Ignores SIGPIPE, SIGXFSZ (file size
/// limit) and SIGTTOU (background job of a terminal), so that such a write fails instead of ending
/// or stopping the process. No effect in a simulation.
class NonBlockingOutput final {
 public:
  enum class Streams {
    kBoth,
    kErrorOnly,  ///< Standard output is the command's result and may block.
  };
  explicit NonBlockingOutput(Streams streams = Streams::kBoth);
  NonBlockingOutput(const NonBlockingOutput&) = delete;
  NonBlockingOutput& operator=(const NonBlockingOutput&) = delete;
  /// Drains both streams with a patience of kPatience each.
  ~NonBlockingOutput();

 private:
  static constexpr Nanoseconds kPatience = std::chrono::milliseconds(500);
  std::unique_ptr<NonBlockingStream> output_, error_;
};

}  // namespace weft
