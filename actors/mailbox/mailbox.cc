#include "actors/mailbox/mailbox.h"

#include <algorithm>

#include "core/base/thread.h"

namespace weft::actors {

namespace {
constexpr std::uint32_t kMinWindowMessages = 16;
constexpr std::uint64_t kMinWindowBytes = 64u << 10;
}  // namespace

void Mailbox::update_hint() {
  queued_hint_.store(
      held_tasks_.size() + wakeups_.size() + later_.size() + urgent_.size() + ordinary_.size(),
      std::memory_order_relaxed);
}

void Mailbox::wake(std::unique_lock<Mutex>& lock) {
  update_hint();
  const bool sleeping = std::exchange(sleeping_, false);
  lock.unlock();
  if (!sleeping) return;
  if (on_ready_) on_ready_();
  else changed_.notify_one();
}

Mailbox::Refusal Mailbox::push(Envelope& envelope) {
  std::unique_lock lock(mutex_);
  if (closed_) return Refusal::kClosed;
  if (envelope.call.urgent) {
    if (urgent_.size() >= kMaxUrgent) return Refusal::kUrgentFull;
    urgent_.push_back(std::move(envelope));
  } else {
    const std::size_t bytes = envelope.call.arguments.size();
    if (envelope.route->needs_credit() && !use_credit(envelope.route, bytes))
      return Refusal::kOverrun;
    ordinary_bytes_ += bytes;
    ordinary_.push_back(std::move(envelope));
  }
  wake(lock);
  return Refusal::kNone;
}

bool Mailbox::use_credit(const std::shared_ptr<ReturnRoute>& route, std::size_t bytes) {
  const auto [found, is_new] = senders_.try_emplace(route.get());
  SenderCredit& sender = found->second;
  if (is_new) {
    sender.route = route;
    // the new sender changes every share
    for (auto& [other, each] : senders_) each.report = true;
  }
  const std::uint64_t in_flight = sender.received_messages - sender.consumed_messages;
  if (in_flight >= limits_.messages && in_flight >= kInitialMessages) return false;
  ++sender.received_messages;
  sender.received_bytes += bytes;
  return true;
}

bool Mailbox::post(Task task) {
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  wakeups_.emplace_back(std::move(task));
  wake(lock);
  return true;
}

bool Mailbox::resume(Resumption resumption) {
  std::unique_lock lock(mutex_);
  wakeups_.emplace_back(resumption);  // taken when closed, too: suspended handlers must finish
  wake(lock);
  return true;
}

void Mailbox::resume_later(Resumption resumption) {
  std::unique_lock lock(mutex_);
  later_.push_back(resumption);
  wake(lock);
}

void Mailbox::request_stop() {
  std::unique_lock lock(mutex_);
  stop_requested_ = true;
  wake(lock);
}

Mailbox::Item Mailbox::next(Ordinary ordinary) {
  std::unique_lock lock(mutex_);
  while (true) {
    const Source source = find_source(ordinary);
    if (source != Source::kNone) return take(source);
    sleeping_ = true;
    changed_.wait(lock, [this] { return !sleeping_; });
  }
}

std::optional<Mailbox::Item> Mailbox::try_next(Ordinary ordinary) {
  const std::lock_guard lock(mutex_);
  const Source source = find_source(ordinary);
  if (source != Source::kNone) return take(source);
  sleeping_ = true;
  return std::nullopt;
}

Mailbox::Source Mailbox::find_source(Ordinary ordinary) {
  if (stop_requested_) return Source::kStop;
  if (ordinary == Ordinary::kNoTasks) {
    for (; !wakeups_.empty() && std::holds_alternative<Task>(wakeups_.front());
         wakeups_.pop_front())
      held_tasks_.push_back(std::get<Task>(std::move(wakeups_.front())));
  } else if (!held_tasks_.empty()) {
    return Source::kHeldTask;
  }
  if (!wakeups_.empty()) return Source::kWakeup;
  if (!urgent_.empty()) return Source::kUrgent;
  const bool starts = ordinary >= Ordinary::kConcurrent && !ordinary_.empty() &&
                      (ordinary == Ordinary::kAll || ordinary_.front().concurrent);
  if (!later_.empty() && !(starts && ordinary_first_)) return Source::kLater;
  return starts ? Source::kOrdinary : Source::kNone;
}

Mailbox::Item Mailbox::take(Source source) {
  if (source == Source::kStop) {
    stop_requested_ = false;
    return Stop{};
  }
  if (source == Source::kLater) {
    Item item = later_.front();
    later_.erase(later_.begin());
    ordinary_first_ = true;
    update_hint();
    return item;
  }
  if (source == Source::kHeldTask) {
    Item item = std::move(held_tasks_.front());
    held_tasks_.pop_front();
    update_hint();
    return item;
  }
  if (source == Source::kWakeup) {
    Item item =
        std::visit([](auto& wakeup) -> Item { return std::move(wakeup); }, wakeups_.front());
    wakeups_.pop_front();
    update_hint();
    return item;
  }
  std::deque<Envelope>& queue = source == Source::kUrgent ? urgent_ : ordinary_;
  Envelope envelope = std::move(queue.front());
  queue.pop_front();
  if (source == Source::kOrdinary) {
    consumed(envelope);
    ordinary_first_ = false;
  }
  last_route_ = envelope.route.get();
  last_call_ = envelope.call.id;
  last_cancelled_.store(false, std::memory_order_relaxed);
  last_lost_.store(false, std::memory_order_relaxed);
  update_hint();
  return envelope;
}

void Mailbox::consumed(const Envelope& envelope) {
  const std::size_t bytes = envelope.call.arguments.size();
  ordinary_bytes_ -= bytes;
  const auto found = senders_.find(envelope.route.get());
  if (found == senders_.end()) return;
  SenderCredit& sender = found->second;
  ++sender.consumed_messages;
  sender.consumed_bytes += bytes;
  if (sender.consumed_messages - sender.reported_messages >= sender.window_messages / 4 ||
      sender.consumed_bytes - sender.reported_bytes >= sender.window_bytes / 4)
    sender.report = true;
  if (sender.report_when_drained && sender.consumed_messages == sender.received_messages)
    sender.report = true;
  if (sender.report) reports_due_.store(true, std::memory_order_relaxed);
}

void Mailbox::drain_credit_reports(std::vector<CreditReport>& into) {
  if (!reports_due_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  reports_due_.store(false, std::memory_order_relaxed);
  for (auto& [key, sender] : senders_)
    if (sender.report) into.push_back({sender.route, make_report(sender)});
}

Credit Mailbox::make_report(SenderCredit& sender) {
  const std::uint32_t count = senders_.size();
  sender.window_messages =
      std::min(limits_.messages, std::max(kMinWindowMessages, limits_.messages / count));
  sender.window_bytes = std::min(limits_.bytes, std::max(kMinWindowBytes, limits_.bytes / count));
  sender.reported_messages = sender.consumed_messages;
  sender.reported_bytes = sender.consumed_bytes;
  sender.report = false;
  sender.report_when_drained = false;
  return {actor_, sender.consumed_messages, sender.consumed_bytes, sender.window_messages,
          sender.window_bytes};
}

std::optional<Credit> Mailbox::request_report(const ReturnRoute* route) {
  const std::lock_guard lock(mutex_);
  const auto found = senders_.find(route);
  if (found == senders_.end()) return std::nullopt;
  const Credit credit = make_report(found->second);
  found->second.report_when_drained =
      found->second.consumed_messages != found->second.received_messages;
  return credit;
}

std::optional<Envelope> Mailbox::cancel(const ReturnRoute* route, std::uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  for (auto* queue : {&ordinary_, &urgent_}) {
    const auto found = std::find_if(queue->begin(), queue->end(), [&](const Envelope& each) {
      return each.route.get() == route && each.call.id == call_id;
    });
    if (found == queue->end()) continue;
    Envelope envelope = std::move(*found);
    queue->erase(found);
    if (queue == &ordinary_) consumed(envelope);
    return envelope;
  }
  if (route == last_route_ && call_id == last_call_)
    last_cancelled_.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

void Mailbox::remove_sender(const ReturnRoute* route) {
  const std::lock_guard lock(mutex_);
  for (auto* queue : {&ordinary_, &urgent_})
    std::erase_if(*queue, [&](const Envelope& each) {
      if (each.route.get() != route) return false;
      if (queue == &ordinary_) ordinary_bytes_ -= each.call.arguments.size();
      return true;
    });
  senders_.erase(route);
  if (route == last_route_) last_lost_.store(true, std::memory_order_relaxed);
  for (auto& [other, sender] : senders_) sender.report = true;
}

std::vector<Envelope> Mailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  std::vector<Envelope> waiting;
  for (auto* queue : {&urgent_, &ordinary_}) {
    for (Envelope& each : *queue) waiting.push_back(std::move(each));
    queue->clear();
  }
  ordinary_bytes_ = 0;
  return waiting;
}

std::size_t Mailbox::waiting() const {
  const std::lock_guard lock(mutex_);
  return ordinary_.size() + urgent_.size();
}

std::size_t Mailbox::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return ordinary_bytes_;
}

}  // namespace weft::actors
