#include "actors/supervision/restart_budget.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/base/units.h"
#include "core/codec/codec.h"

namespace weft::actors {
namespace {

/// Offset of the records, each behind its length. The number of finished steps precedes them.
constexpr off_t kRecordsAt = sizeof(std::uint64_t);
constexpr std::size_t kLongestText = 4096;

/// Lock that excludes other processes. Nobody waits for anything while holding it.
class InterprocessLock final {
 public:
  explicit InterprocessLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~InterprocessLock() { ::flock(fd_, LOCK_UN); }
  InterprocessLock(const InterprocessLock&) = delete;
  InterprocessLock& operator=(const InterprocessLock&) = delete;

 private:
  const int fd_;
};

std::vector<std::byte> bytes_of(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0 || found.st_size <= kRecordsAt) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(found.st_size - kRecordsAt));
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), kRecordsAt);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

/// Stored form of a record.
struct KeptDeath {
  std::int64_t at_ns = 0;
  std::uint64_t steps = 0;
  std::string process_id_text, cause, crash_signature;
  static constexpr auto fields =
      weft::fields(&KeptDeath::at_ns, &KeptDeath::steps, &KeptDeath::process_id_text,
                   &KeptDeath::cause, &KeptDeath::crash_signature);
};

}  // namespace

RestartBudget::RestartBudget(std::size_t max_restarts, Nanoseconds window)
    : RestartBudget(max_restarts, window, "") {}

RestartBudget::RestartBudget(std::size_t max_restarts, Nanoseconds window, const std::string& path)
    : max_restarts_(max_restarts),
      window_(window),
      fd_(path.empty() ? -1 : ::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (fd_ < 0) fd_ = own_.emplace("restarts").descriptor();
}

RestartBudget::~RestartBudget() {
  if (!own_) ::close(fd_);
}

std::string RestartBudget::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

std::uint64_t RestartBudget::steps() const {
  std::uint64_t steps = 0;
  if (::pread(fd_, &steps, sizeof steps, 0) != sizeof steps) return 0;
  return steps;
}

void RestartBudget::step_done() {
  // Needs no lock: only the driver writes it.
  const std::uint64_t steps = this->steps() + 1;
  [[maybe_unused]] const auto written = ::pwrite(fd_, &steps, sizeof steps, 0);
}

std::vector<RestartBudget::Record> RestartBudget::read() const {
  std::vector<Record> records;
  const std::vector<std::byte> bytes = bytes_of(fd_);
  std::uint32_t length = 0;
  for (std::size_t at = 0; at + sizeof length <= bytes.size(); at += length) {
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (length > bytes.size() - at) break;  // The writer died before it finished.
    auto kept = decode<KeptDeath>(std::span(bytes).subspan(at, length));
    const auto same = std::ranges::find_if(records, [&](const Record& record) {
      return !kept.process_id_text.empty() && record.death.process_id_text == kept.process_id_text;
    });
    if (same != records.end() && same->death.crash_signature.empty()) {
      // The death was reported before its crash signature was known.
      same->death.crash_signature = std::move(kept.crash_signature);
    } else {
      records.push_back({kept.at_ns,
                         kept.steps,
                         {std::move(kept.process_id_text), std::move(kept.cause),
                          std::move(kept.crash_signature)}});
    }
  }
  return records;
}

void RestartBudget::append(const Record& record) {
  const std::vector<std::byte> kept =
      encode(KeptDeath{record.at_ns, record.steps, record.death.process_id_text,
                       record.death.cause.substr(0, kLongestText),
                       record.death.crash_signature.substr(0, kLongestText)});
  const auto length = static_cast<std::uint32_t>(kept.size());
  std::vector<std::byte> bytes(sizeof length);
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(bytes.end(), kept.begin(), kept.end());
  struct stat found {};
  ::fstat(fd_, &found);
  const off_t at = std::max<off_t>(found.st_size, kRecordsAt);
  [[maybe_unused]] const auto written = ::pwrite(fd_, bytes.data(), bytes.size(), at);
}

RestartBudget::Decision RestartBudget::record_death(const Death& death, TimePoint now) {
  const InterprocessLock lock(fd_);
  const std::int64_t now_ns = now.time_since_epoch().count();
  const std::uint64_t steps = this->steps();
  std::size_t counted = 0;
  std::optional<std::size_t> known;
  bool new_signature = false;  // A known death is reported again, now with its signature.
  Decision decision;
  for (const Record& record : read()) {
    if (!death.crash_signature.empty() && record.death.crash_signature == death.crash_signature &&
        record.steps == steps && record.death.process_id_text != death.process_id_text)
      decision.repeated = true;
    if (Nanoseconds(now_ns - record.at_ns) > window_) continue;
    ++counted;
    // Another process has counted this death.
    if (!death.process_id_text.empty() && record.death.process_id_text == death.process_id_text) {
      known = counted;
      new_signature = record.death.crash_signature.empty() && !death.crash_signature.empty();
    }
  }
  if (!known || new_signature) append({now_ns, steps, death});
  if (known && !decision.repeated) return {*known <= max_restarts_ ? known : std::nullopt, false};
  if (!decision.repeated && counted < max_restarts_) decision.restart = counted + 1;
  return decision;
}

std::vector<std::string> RestartBudget::causes(TimePoint now) const {
  std::vector<std::string> causes;
  for (const Record& record : read())
    if (now - TimePoint(Nanoseconds(record.at_ns)) <= window_) causes.push_back(record.death.cause);
  return causes;
}

std::string RestartBudget::refusal(const std::string& what, const Decision& decision) const {
  if (decision.repeated)
    return fmt::format(
        "{}. The same failure happened twice without a finished step between, so another restart "
        "would fail too; fix the cause and start the run again",
        what);
  return fmt::format(
      "{}. The limit of restarts is reached (recovery.restarts: {} within {}); fix the cause, or "
      "raise recovery.restarts",
      what, max_restarts_, format_seconds(in_seconds(window_)));
}

}  // namespace weft::actors
