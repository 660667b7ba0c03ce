#include "actors/call/call_stream.h"

namespace weft::actors {

std::shared_ptr<CallStream> CallStream::make(std::vector<std::shared_ptr<CallState>> calls) {
  std::shared_ptr<CallStream> stream(new CallStream(std::move(calls)));
  if (stream->calls_.empty()) stream->close();
  for (std::size_t i = 0; i < stream->calls_.size(); ++i)
    stream->calls_[i]->when_done([stream, i] { stream->call_done(i); });
  return stream;
}

void CallStream::call_done(std::size_t index) {
  CallState& call = *calls_[index];
  push({index, call.take_result(), call.decode_context});
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) close();
}

void CallStream::cancel() {
  for (const auto& call : calls_) call->cancel();
}

}  // namespace weft::actors
