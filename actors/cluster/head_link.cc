#include "actors/cluster/head_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "core/base/announced_wait.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr auto kDialWithin = std::chrono::seconds(1);
constexpr auto kLookAgainAfter = std::chrono::milliseconds(50);
constexpr auto kCallAgainAfter = std::chrono::milliseconds(50);
constexpr auto kAskEvery = std::chrono::seconds(1);
/// Expected peer: processes other than a head refuse the connection.
constexpr ExpectedPeer kWantsHead{.head = true};

/// Returns true for errors that a retry does not change. Others may pass: no process is there, the
/// head listens and has no actor yet, or too many processes ask at once.
bool is_permanent(const Error& error) {
  return error.code() == ErrorCode::kIncompatible || error.code() == ErrorCode::kAlreadyExists ||
         error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kCancelled;
}

bool may_return(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kPeerDied ||
         error.code() == ErrorCode::kDeadlineExceeded;
}

}  // namespace

HeadLink::HeadLink(System& system, const Address& address, LinkCallbacks events)
    : system_(system), address_(address), events_(std::move(events)) {}

JoinReply HeadLink::join(Nanoseconds returns_within) {
  const TimePoint begun = clock_.now();
  std::optional<JoinReply> joined;
  const AnnouncedWait announced(fmt::format("a head at {}", to_string(address_)),
                                std::max(returns_within, Nanoseconds(kConnectWithin)));
  while (!joined) {
    bool reached = false;
    try {
      const ProcessRef found = system_.connect(address_, kConnectWithin, kWantsHead);
      {
        const std::lock_guard lock(mutex_);
        process_ = found;
      }
      reached = true;
      joined = events_.greet(found);
    } catch (const Error& error) {
      // Many processes may ask at once when a whole cluster starts.
      const Nanoseconds patience =
          error.code() == ErrorCode::kResourceExhausted             ? Nanoseconds(kConnectWithin)
          : may_return(error) || (!reached && !is_permanent(error)) ? returns_within
                                                                    : Nanoseconds::zero();
      if (clock_.now() - begun >= patience) throw;
    }
    if (!joined) wait_a_while();
  }
  {
    const std::lock_guard lock(mutex_);
    joined_ = *joined;
  }
  thread_ = Thread("head-link", ThreadPriority::kOrdinary, [this] { search(); });
  return *joined;
}

HeadLink::~HeadLink() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

ActorRef<Head> HeadLink::head() const {
  const std::lock_guard lock(mutex_);
  return system_.named<Head>(process_, "head");
}

ProcessRef HeadLink::process() const {
  const std::lock_guard lock(mutex_);
  return process_;
}

std::uint64_t HeadLink::losses() const {
  const std::lock_guard lock(mutex_);
  return losses_;
}

HeadLink::Reached HeadLink::reach(Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [this] { return lost_ || !away_since_; });
  if (lost_) throw Error(*lost_);
  if (away_since_)
    throw_error(ErrorCode::kUnavailable, "the head at {} has not responded for {:.0f} s",
                to_string(address_), in_seconds(clock_.now() - *away_since_));
  return {system_.named<Head>(process_, "head"), losses_};
}

HeadLink::Reached HeadLink::reach_patiently(TimePoint give_up,
                                            const std::function<bool()>& goes_on) const {
  if (goes_on) {
    std::unique_lock lock(mutex_);
    while (!lost_ && away_since_ && clock_.now() < give_up) {
      changed_.wait_for(lock, std::min<Nanoseconds>(kCallAgainAfter, give_up - clock_.now()),
                        [this] { return lost_ || !away_since_; });
      lock.unlock();
      if (!goes_on())
        throw_error(ErrorCode::kCancelled, "interrupted while the head at {} is away",
                    to_string(address_));
      lock.lock();
    }
  }
  return reach(give_up - clock_.now());
}

void HeadLink::retry(const Patience& patience, const std::function<void(const Reached&)>& call) {
  const TimePoint give_up = clock_.now() + patience.within;
  std::optional<AnnouncedWait> announced;
  while (true) {
    std::uint64_t before = losses();
    std::optional<Error> problem;
    bool is_reached = false;
    try {
      const Nanoseconds left = give_up - clock_.now();
      const Reached reached = reach_patiently(
          clock_.now() + std::min(left, patience.head_returns_within), patience.goes_on);
      is_reached = true;
      before = reached.losses;
      return call({reached.head.within(give_up - clock_.now()), before});
    } catch (const Error& error) {
      problem = error;
    }
    // kCancelled is retried, too: only a head that ends, or has lost this process, cancels its
    // calls.
    const bool passes =
        is_reached && (problem->code() == ErrorCode::kUnavailable ||
                       problem->code() == ErrorCode::kCancelled || losses() != before);
    const std::string& why = problem->message();
    const std::string what = "the cluster: " + why.substr(0, why.find('\n'));
    if (announced) announced->update(what);
    else announced.emplace(what, patience.within);
    std::unique_lock lock(mutex_);
    if (!passes || lost_ || clock_.now() + kCallAgainAfter >= give_up) throw Error(*problem);
    changed_.wait_for(lock, kCallAgainAfter, [this] { return lost_.has_value(); });
  }
}

bool HeadLink::report_peer_loss(const ProcessRef& peer, const std::string& how) {
  {
    const std::lock_guard lock(mutex_);
    if (peer.id != process_.id) return false;
    ++losses_;
    if (away_since_ || lost_ || stopping_) return true;
    away_since_ = clock_.now();
    changed_.notify_all();
  }
  if (events_.on_away) events_.on_away(how);
  return true;
}

void HeadLink::give_up(const Error& why) { lose(why); }

void HeadLink::lose(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_ || stopping_) return;
    lost_ = why;
    changed_.notify_all();
  }
  if (events_.on_lost) events_.on_lost(why);
}

void HeadLink::wait_a_while() {
  std::array<std::uint16_t, 1> random{};
  fill_with_random(std::as_writable_bytes(std::span(random)));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLookAgainAfter + random[0] % 100 * kLookAgainAfter / 100,
                    [this] { return lost_ || stopping_; });
}

void HeadLink::search() {
  std::unique_lock lock(mutex_);
  TimePoint ask{};
  while (true) {
    changed_.wait(lock, [this] { return away_since_ || lost_ || stopping_; });
    if (lost_ || stopping_) return;
    const TimePoint since = *away_since_;
    const Nanoseconds grace(joined_.grace_ns);
    lock.unlock();
    const bool found = find();
    const TimePoint now = clock_.now();
    if (!found && now - since > grace && now > ask && events_.gives_up) {
      ask = now + kAskEvery;
      std::string problem;
      {
        const std::lock_guard last(mutex_);
        problem = last_problem_;
      }
      if (events_.gives_up())
        lose(Error(ErrorCode::kPeerDied,
                   fmt::format("the head at {} has not come back within {:.0f} s: {}",
                               to_string(address_), in_seconds(grace), problem)));
    }
    if (!found) wait_a_while();
    lock.lock();
  }
}

std::optional<ProcessRef> HeadLink::dial() {
  try {
    return system_.connect(address_, kDialWithin, kWantsHead);
  } catch (const Error& error) {
    // A process there that is no head of this cluster may end.
    const std::lock_guard lock(mutex_);
    last_problem_ = error.message();
    return std::nullopt;
  }
}

bool HeadLink::find() {
  const auto dialled = dial();
  if (!dialled) return false;
  const ProcessRef& found = *dialled;
  try {
    std::uint64_t losses = 0;
    JoinReply before;
    {
      const std::lock_guard lock(mutex_);
      process_ = found;
      losses = losses_;
      before = joined_;
    }
    JoinReply joined = events_.greet(found);
    if (joined.cluster != before.cluster)
      throw_error(ErrorCode::kIncompatible,
                  "the head at {} belongs to cluster {}, this process to cluster {}",
                  to_string(address_), joined.cluster.substr(0, 12), before.cluster.substr(0, 12));
    if (joined.term < before.term)
      throw_error(ErrorCode::kStaleEpoch,
                  "the head at {} has term {}, older than the known term {}: a newer head exists",
                  to_string(address_), joined.term, before.term);
    Nanoseconds away{};
    {
      const std::lock_guard lock(mutex_);
      if (losses_ != losses || stopping_ || lost_) return false;
      joined_ = joined;
      away = clock_.now() - *std::exchange(away_since_, std::nullopt);
      changed_.notify_all();
    }
    if (events_.on_back) events_.on_back(joined, away);
    return true;
  } catch (const Error& error) {
    if (is_permanent(error)) lose(error);
    const std::lock_guard lock(mutex_);
    last_problem_ = error.message();
    return false;
  }
}

}  // namespace weft::actors
