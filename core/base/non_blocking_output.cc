#include "core/base/non_blocking_output.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/platform.h"
#include "core/base/thread.h"

namespace weft {
namespace {

constexpr int kPollIntervalMs = 100;
/// Bytes of one write to a slow reader; small, so that its progress is noticed.
constexpr std::size_t kWriteChunkBytes = 4096;

/// Method that keeps writes to a descriptor from blocking.
enum class WriteMethod {
  kNoReader,  ///< A file, or a device such as /dev/null: writes do not depend on a reader.
  kReopened,  ///< A pipe or a terminal, opened again with O_NONBLOCK.
  kSocket,    ///< Uses MSG_DONTWAIT.
  kBlocking,  ///< No method is possible: only the thread writes.
};

}  // namespace

/// Buffer and thread behind the text for one descriptor.
class NonBlockingStream::Writer final {
 public:
  explicit Writer(int descriptor) : descriptor_(descriptor) {
    struct stat status {};
    ::fstat(descriptor, &status);
    if (S_ISREG(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(descriptor) == 0)) {
      way_ = WriteMethod::kNoReader;
    } else if (S_ISSOCK(status.st_mode)) {
      way_ = WriteMethod::kSocket;
    } else {
      // O_NONBLOCK belongs to the open file description, which other processes share. Therefore the
      // file is opened again. That fails if the pipe belongs to another user.
      const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
      const int own = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
      if (own >= 0) descriptor_ = own;
      way_ = own >= 0 ? WriteMethod::kReopened : WriteMethod::kBlocking;
    }
  }

  /// Writes or buffers text. `self` keeps this object alive in the thread that may be started.
  void add(std::string_view text, const std::shared_ptr<Writer>& self) {
    const std::lock_guard lock(mutex_);
    // After close() the process is about to exit, so even a blocking write is acceptable.
    if (waiting_.empty() && !writing_ && (way_ != WriteMethod::kBlocking || closed_))
      text = write_now(text);
    if (text.empty()) return;
    if (closed_ || waiting_.size() + text.size() > kMaxBufferedBytes) {
      dropped_bytes_ += text.size();
      return;
    }
    waiting_ += text;
    if (!std::exchange(has_thread_, true)) start_thread(self);
    changed_.notify_all();
  }

  bool wait_until_empty(Nanoseconds patience) {
    const SteadyClock clock;
    const TimePoint give_up = clock.now() + 4 * patience;
    std::unique_lock lock(mutex_);
    while (!empty() && clock.now() < give_up) {
      const std::uint64_t before = written_;
      changed_.wait_for(lock, patience, [&] { return empty() || written_ != before; });
      if (written_ == before && !empty()) return false;
    }
    return empty();
  }

  /// Stops buffering and ends the thread, unless it is blocked in a write.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  // The following functions require the mutex.
  bool empty() const { return waiting_.empty() && !writing_; }

  /// Writes as much as the reader accepts and returns the rest. Discards the rest on a permanent
  /// error.
  std::string_view write_now(std::string_view text) {
    while (!text.empty()) {
      const ssize_t taken = write_some(text);
      if (taken > 0) text.remove_prefix(taken);
      else if (taken < 0 && errno == EAGAIN) return text;
      else if (taken == 0 || errno != EINTR) return {};  // permanent error
    }
    return text;
  }

  void start_thread(const std::shared_ptr<Writer>& self) {
    // Blocks all signals in the new thread; other threads handle them.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Thread thread("output", ThreadPriority::kOrdinary, [self] { self->run(); });
    thread.detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // The following functions are called without the mutex.
  ssize_t write_some(std::string_view text) const {
    return way_ == WriteMethod::kSocket
               ? ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
               : ::write(descriptor_, text.data(), text.size());
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
      if (closed_) return;
      const std::string piece = waiting_.substr(0, kWriteChunkBytes);
      writing_ = true;
      lock.unlock();
      const ssize_t taken = write_when_ready(piece);
      lock.lock();
      writing_ = false;
      if (taken == 0) continue;
      waiting_.erase(0, taken > 0 ? taken : piece.size());
      written_ += piece.size();
      if (waiting_.empty() && dropped_bytes_ > 0) {
        waiting_ = fmt::format(
            "\nweft: {} bytes of output were dropped here, because they were not read in time\n",
            std::exchange(dropped_bytes_, 0));
      }
      changed_.notify_all();
    }
  }

  /// Returns the number of bytes written, 0 if the reader accepts none at present, or a negative
  /// number on a permanent error.
  ssize_t write_when_ready(std::string_view text) const {
    if (way_ != WriteMethod::kBlocking) {
      pollfd ready{descriptor_, POLLOUT, 0};
      if (::poll(&ready, 1, kPollIntervalMs) <= 0) return 0;
    }
    const ssize_t taken = write_some(text);
    return taken < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : taken;
  }

  int descriptor_;
  WriteMethod way_;
  Mutex mutex_;
  Condition changed_;
  std::string waiting_;            // guarded by mutex_: text not yet written
  bool writing_ = false;           // guarded by mutex_: the thread writes the front of waiting_
  std::uint64_t written_ = 0;      // guarded by mutex_: bytes removed from waiting_
  std::size_t dropped_bytes_ = 0;  // guarded by mutex_: bytes dropped since the last report
  bool has_thread_ = false;        // guarded by mutex_
  bool closed_ = false;            // guarded by mutex_
};

/// Keeps a writer until the process exits, because threads that outlive its stream may print.
/// Returns its address.
void* NonBlockingStream::keep(std::shared_ptr<Writer> writer) {
  static auto& mutex = *new Mutex;
  static auto& kept = *new std::list<std::shared_ptr<Writer>>;
  const std::lock_guard lock(mutex);
  return &kept.emplace_back(std::move(writer));
}

NonBlockingStream::NonBlockingStream(int descriptor)
    : writer_(std::make_shared<Writer>(descriptor)) {
  cookie_io_functions_t functions{};
  functions.write = [](void* cookie, const char* text, std::size_t size) -> ssize_t {
    const auto& writer = *static_cast<std::shared_ptr<Writer>*>(cookie);
    writer->add({text, size}, writer);
    return size;
  };
  file_ = ::fopencookie(keep(writer_), "w", functions);
  std::setvbuf(file_, nullptr, ::isatty(descriptor) == 1 ? _IOLBF : _IOFBF, BUFSIZ);
}

NonBlockingStream::~NonBlockingStream() {
  std::fflush(file_);
  writer_->close();
}

bool NonBlockingStream::drain(Nanoseconds patience) {
  std::fflush(file_);
  return writer_->wait_until_empty(patience);
}

NonBlockingOutput::NonBlockingOutput(Streams streams) {
  if (Platform::simulated() != nullptr) return;
  for (const int fatal : {SIGPIPE, SIGXFSZ, SIGTTOU}) ::signal(fatal, SIG_IGN);
  if (streams == Streams::kBoth) {
    std::fflush(stdout);
    output_ = std::make_unique<NonBlockingStream>(STDOUT_FILENO);
    stdout = output_->file();
  }
  error_ = std::make_unique<NonBlockingStream>(STDERR_FILENO);
  std::setvbuf(error_->file(), nullptr, _IONBF, 0);
  stderr = error_->file();
}

NonBlockingOutput::~NonBlockingOutput() {
  if (output_) output_->drain(kPatience);
  if (error_) error_->drain(kPatience);
}

}  // namespace weft
