#include "core/base/unblocked_output.h"

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

constexpr int kLookEveryMs = 100;
/// Of one write while the reader is slow: small, so that a change of its pace is seen.
constexpr std::size_t kPiece = 4096;

/// How a write to a descriptor is kept from waiting for its reader.
enum class WayToWrite {
  kNobodyReads,  ///< A file or a device such as /dev/null: a write waits for no process.
  kReopened,     ///< A pipe or a terminal, opened once more with O_NONBLOCK of its own.
  kSocket,       ///< MSG_DONTWAIT.
  kBlocking,     ///< None of these is possible: only the thread writes.
};

}  // namespace

/// The text on its way to one descriptor.
class UnblockedStream::Writer final {
 public:
  explicit Writer(int descriptor) : descriptor_(descriptor) {
    struct stat status {};
    ::fstat(descriptor, &status);
    if (S_ISREG(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(descriptor) == 0)) {
      way_ = WayToWrite::kNobodyReads;
    } else if (S_ISSOCK(status.st_mode)) {
      way_ = WayToWrite::kSocket;
    } else {
      // O_NONBLOCK belongs to what is open, which other processes share: hence an opening of our
      // own. It is refused where the pipe is another user's.
      const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
      const int own = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
      if (own >= 0) descriptor_ = own;
      way_ = own >= 0 ? WayToWrite::kReopened : WayToWrite::kBlocking;
    }
  }

  /// `self`: for the thread, should there be one.
  void add(std::string_view text, const std::shared_ptr<Writer>& self) {
    const std::lock_guard lock(mutex_);
    // After close() the process only ends: even a blocking write may wait for its reader then.
    if (waiting_.empty() && !writing_ && (way_ != WayToWrite::kBlocking || closed_))
      text = write_now(text);
    if (text.empty()) return;
    if (closed_ || waiting_.size() + text.size() > kMost) {
      left_out_ += text.size();
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

  /// Nothing is kept from here on, and the thread ends unless it hangs in a write.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  // The following are called with the mutex held.
  bool empty() const { return waiting_.empty() && !writing_; }

  /// Gives back the rest that the reader does not take now.
  std::string_view write_now(std::string_view text) {
    while (!text.empty()) {
      const ssize_t taken = write_some(text);
      if (taken > 0) text.remove_prefix(taken);
      else if (taken < 0 && errno == EAGAIN) return text;
      else if (taken == 0 || errno != EINTR) return {};  // nobody takes it, ever
    }
    return text;
  }

  void start_thread(const std::shared_ptr<Writer>& self) {
    // Signals belong to other threads.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Thread thread("output", ThreadShare::kOrdinary, [self] { self->run(); });
    thread.detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // The following are called without.
  ssize_t write_some(std::string_view text) const {
    return way_ == WayToWrite::kSocket
               ? ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
               : ::write(descriptor_, text.data(), text.size());
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
      if (closed_) return;
      const std::string piece = waiting_.substr(0, kPiece);
      writing_ = true;
      lock.unlock();
      const ssize_t taken = write_when_ready(piece);
      lock.lock();
      writing_ = false;
      if (taken == 0) continue;
      waiting_.erase(0, taken > 0 ? taken : piece.size());
      written_ += piece.size();
      if (waiting_.empty() && left_out_ > 0) {
        waiting_ = fmt::format("\nweft: {} bytes of output are left out here: nothing read them\n",
                               std::exchange(left_out_, 0));
      }
      changed_.notify_all();
    }
  }

  /// Bytes that the reader has taken; 0: none, for a while; negative: it takes none ever.
  ssize_t write_when_ready(std::string_view text) const {
    if (way_ != WayToWrite::kBlocking) {
      pollfd ready{descriptor_, POLLOUT, 0};
      if (::poll(&ready, 1, kLookEveryMs) <= 0) return 0;
    }
    const ssize_t taken = write_some(text);
    return taken < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : taken;
  }

  int descriptor_;
  WayToWrite way_;
  Mutex mutex_;
  Condition changed_;
  std::string waiting_;        // guarded by mutex_: the reader has not taken it
  bool writing_ = false;       // guarded by mutex_: the thread does, from the front of waiting_
  std::uint64_t written_ = 0;  // guarded by mutex_: bytes that left waiting_
  std::size_t left_out_ = 0;   // guarded by mutex_: bytes, since the last line about them
  bool has_thread_ = false;    // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_
};

/// Keeps a writer for the rest of the process: threads that outlive its stream may print. Returns
/// where it lies.
void* UnblockedStream::keep(std::shared_ptr<Writer> writer) {
  static auto& mutex = *new Mutex;
  static auto& kept = *new std::list<std::shared_ptr<Writer>>;
  const std::lock_guard lock(mutex);
  return &kept.emplace_back(std::move(writer));
}

UnblockedStream::UnblockedStream(int descriptor) : writer_(std::make_shared<Writer>(descriptor)) {
  cookie_io_functions_t functions{};
  functions.write = [](void* cookie, const char* text, std::size_t size) -> ssize_t {
    const auto& writer = *static_cast<std::shared_ptr<Writer>*>(cookie);
    writer->add({text, size}, writer);
    return size;
  };
  file_ = ::fopencookie(keep(writer_), "w", functions);
  std::setvbuf(file_, nullptr, ::isatty(descriptor) == 1 ? _IOLBF : _IOFBF, BUFSIZ);
}

UnblockedStream::~UnblockedStream() {
  std::fflush(file_);
  writer_->close();
}

bool UnblockedStream::drain(Nanoseconds patience) {
  std::fflush(file_);
  return writer_->wait_until_empty(patience);
}

UnblockedOutput::UnblockedOutput(Streams streams) {
  if (Platform::simulated() != nullptr) return;
  for (const int fatal : {SIGPIPE, SIGXFSZ, SIGTTOU}) ::signal(fatal, SIG_IGN);
  if (streams == Streams::kBoth) {
    std::fflush(stdout);
    output_ = std::make_unique<UnblockedStream>(STDOUT_FILENO);
    stdout = output_->file();
  }
  error_ = std::make_unique<UnblockedStream>(STDERR_FILENO);
  std::setvbuf(error_->file(), nullptr, _IONBF, 0);
  stderr = error_->file();
}

UnblockedOutput::~UnblockedOutput() {
  if (output_) output_->drain(kPatience);
  if (error_) error_->drain(kPatience);
}

}  // namespace weft
