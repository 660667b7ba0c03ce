#include "actors/head/local_calls.h"

#include <utility>

#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {

void LocalCalls::check_caller() const {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the head's own process may call this");
}

task<void> LocalCalls::peer_suspected(ProcessId peer, std::int64_t silence_ns) {
  check_caller();
  return hosts_.suspected(peer, silence_ns);
}

void LocalCalls::peer_timed_out(ProcessId peer, std::int64_t silence_ns) {
  check_caller();
  hosts_.timed_out(peer, silence_ns);
}

void LocalCalls::peer_disconnected(ProcessId peer, bool cut_off) {
  check_caller();
  hosts_.disconnected(peer, cut_off);
  owners_.disconnected(peer, cut_off);
}

void LocalCalls::expire_silent_peers() {
  check_caller();
  hosts_.expire();
  releases_.resume();
  epochs_.resume_starts();
  reservations_.replace_lost();
  owners_.expire();
}

task<void> LocalCalls::finish_release(MeshKey key) {
  check_caller();
  return releases_.finish(std::move(key));
}

task<void> LocalCalls::start_shared_process(MeshKey key) {
  check_caller();
  return epochs_.start_shared(std::move(key));
}

void LocalCalls::record_refusal(const std::string& text) {
  check_caller();
  log_.record_unlogged(text);
}

}  // namespace weft::actors
