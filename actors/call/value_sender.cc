#include "actors/call/value_sender.h"

#include <utility>

#include "actors/message/message_frames.h"
#include "core/base/units.h"

namespace weft::actors {

void ValueSender::add(std::vector<std::byte> value) {
  if (value.size() > kMaxMessageBytes)
    throw_error(ErrorCode::kResourceExhausted,
                "a value of a generator takes {}; the limit is {}: tensors and files travel by "
                "transfer, not in calls",
                format_bytes(value.size()), format_bytes(kMaxMessageBytes));
  if (!fits_ready(value.size())) send_ready();
  bool is_first = false, is_full = false;
  {
    const std::lock_guard lock(mutex_);
    window_.sent(value.size());
    is_first = ready_.empty();
    ready_bytes_ += value.size();
    is_full = ready_bytes_ >= kMaxBatchBytes;
    ready_.push_back(std::move(value));
  }
  if (is_full) send_ready();
  else if (is_first) route_->run_soon([self = shared_from_this()] { self->send_ready(); });
}

bool ValueSender::fits_ready(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return ready_.empty() || ready_bytes_ + bytes <= kMaxBatchBytes;
}

void ValueSender::send_ready() {
  const std::lock_guard sending(sending_);
  Values values{call_id_, {}};
  {
    const std::lock_guard lock(mutex_);
    values.values.swap(ready_);
    ready_bytes_ = 0;
  }
  if (!values.values.empty()) route_->send_values(std::move(values));
}

bool ValueSender::has_room() const {
  const std::lock_guard lock(mutex_);
  return window_.admits(1);
}

bool ValueSender::wait(Resumption generator) {
  const std::lock_guard lock(mutex_);
  if (window_.admits(1)) return false;
  waiting_ = generator;
  return true;
}

void ValueSender::stop_waiting() {
  std::optional<Resumption> generator;
  {
    const std::lock_guard lock(mutex_);
    generator = std::exchange(waiting_, std::nullopt);
  }
  if (generator) mailbox_->resume(*generator);
}

bool ValueSender::waits() const {
  const std::lock_guard lock(mutex_);
  return waiting_.has_value();
}

void ValueSender::grant(std::uint64_t consumed_values, std::uint64_t consumed_bytes) {
  std::optional<Resumption> generator;
  {
    const std::lock_guard lock(mutex_);
    if (!window_.update(consumed_values, consumed_bytes)) return;
    if (waiting_ && window_.admits(1)) generator = std::exchange(waiting_, std::nullopt);
  }
  // Urgent calls that wait precede the generator.
  if (generator) mailbox_->resume_later(*generator);
}

}  // namespace weft::actors
