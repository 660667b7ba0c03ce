#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "core/base/clock.h"

namespace weft {

/// A stdio stream onto a descriptor whose reader may hang up, or stop to read: writing to it never
/// waits and never fails.
///
/// Text goes to the descriptor at once as far as the reader takes it. A thread holds the rest, at
/// most kMost bytes, until the reader goes on. Text beyond that is left out, and a line says how
/// many bytes. Text for a reader that has hung up is dropped. Any thread may write to file().
class UnblockedStream final {
 public:
  /// Bytes that wait for the reader at most, besides those in a pipe or a terminal.
  static constexpr std::size_t kMost = 256 * 1024;

  /// Borrows `descriptor`, which must stay open.
  explicit UnblockedStream(int descriptor);
  UnblockedStream(const UnblockedStream&) = delete;
  UnblockedStream& operator=(const UnblockedStream&) = delete;
  /// file() stays valid for threads that still print; what the reader does not take at once is left
  /// out from here on.
  ~UnblockedStream();

  std::FILE* file() const { return file_; }
  /// Flushes file(), and waits until the reader has all text. Gives up when the reader takes
  /// nothing for `patience`, or not all within four times that. Whether it has all.
  bool drain(Nanoseconds patience);

 private:
  class Writer;
  static void* keep(std::shared_ptr<Writer> writer);

  const std::shared_ptr<Writer> writer_;  // shared with its thread, which may hang in a write
  std::FILE* file_;
};

/// Standard output and standard error of a process that must go on whatever their readers do.
///
/// Made first in main() or in a role of it, once. Replaces `stdout` and `stderr` by
/// UnblockedStreams for the rest of the process. Ignores SIGPIPE, SIGXFSZ (a file at its size
/// limit) and SIGTTOU (a terminal that stops background jobs), so that a write fails instead of
/// ending or stopping the process. Without effect in a simulated world.
class UnblockedOutput final {
 public:
  enum class Streams {
    kBoth,
    kErrorOnly,  ///< Standard output is the result, and waits for its reader.
  };
  explicit UnblockedOutput(Streams streams = Streams::kBoth);
  UnblockedOutput(const UnblockedOutput&) = delete;
  UnblockedOutput& operator=(const UnblockedOutput&) = delete;
  /// Waits for readers as drain() does, for kPatience each.
  ~UnblockedOutput();

 private:
  static constexpr Nanoseconds kPatience = std::chrono::milliseconds(500);
  std::unique_ptr<UnblockedStream> output_, error_;
};

}  // namespace weft
