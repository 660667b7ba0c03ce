#include "actors/call/value_queue.h"

#include <utility>

#include "actors/call/value_sender.h"

namespace weft::actors {

std::shared_ptr<ValueQueue> ValueQueue::make(std::size_t calls, const MakeCall& call) {
  std::shared_ptr<ValueQueue> queue(new ValueQueue(calls));
  if (calls == 0) queue->close();
  for (std::size_t i = 0; i < calls; ++i) {
    auto state = call(i, ValueSink{queue, i});
    {
      const std::lock_guard lock(queue->mutex_);
      queue->streams_[i].call = state;
    }
    state->when_done([queue, i] { queue->call_done(i); });
  }
  return queue;
}

void ValueQueue::on_values(const CallState& call, std::vector<std::vector<std::byte>> values) {
  const std::size_t index = call.sink->key;
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_[index];
  if (stream.ended) return;
  stream.received_values += values.size();
  if (stream.received_values - stream.taken_values > kStreamWindowValues)
    throw_error(ErrorCode::kDataLoss, "the generator '{}' of {} sent more values than {} untaken",
                call.method, call.target->label, kStreamWindowValues);
  for (auto& value : values) push({index, std::move(value), call.decode_context});
}

void ValueQueue::call_done(std::size_t index) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    Stream& stream = streams_[index];
    stream.ended = true;
    if (const auto& error = stream.call->error())
      push({index, *error, stream.call->decode_context});
    last = --left_ == 0;
  }
  if (last) close();
}

void ValueQueue::on_taken(const Completion& taken) {
  if (!taken.result.ok()) return;
  std::shared_ptr<CallState> call;
  std::uint64_t values = 0, bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    Stream& stream = streams_[taken.key];
    values = ++stream.taken_values;
    bytes = stream.taken_bytes += taken.result.value().size();
    // Half of the window: the generator goes on before the reader has taken all.
    const bool due = values - stream.reported_values >= kStreamWindowValues / 2 ||
                     bytes - stream.reported_bytes >= kStreamWindowBytes / 2;
    if (stream.ended || !due) return;
    stream.reported_values = values;
    stream.reported_bytes = bytes;
    call = stream.call;
  }
  call->owner.pull(*call, values, bytes);
}

void ValueQueue::cancel() {
  std::vector<std::shared_ptr<CallState>> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const Stream& stream : streams_)
      if (!stream.ended) calls.push_back(stream.call);
  }
  for (const auto& call : calls) call->cancel();
}

}  // namespace weft::actors
