#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::transfer {

/// Transports that UCX may use for one worker.
enum class Transports { kTcp, kSharedMemory };

/// Throws Error(kUnavailable) "<doing>: <UCX's words>" if `status` is an error. Reports a shortage
/// of file descriptors instead if there is one.
void check_ucs(ucs_status_t status, const char* doing);

/// Socket at which a process listens. A value.
struct ListeningSocket {
  int fd = -1;
  std::uint64_t inode = 0;
};

/// UCP context with one worker, restricted to a set of transports. Owned by UcxWire. One thread at
/// a time.
class UcxWorker final {
 public:
  /// `handler` is called with `argument` for each active message. `interfaces` restricts TCP;
  /// empty: all. Throws Error(kUnavailable).
  UcxWorker(Transports transports, const std::string& interfaces, ucp_am_recv_callback_t handler,
            void* argument);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  const std::vector<std::byte>& address() const { return address_; }
  int event_fd() const { return event_fd_; }

  /// Runs a few rounds of ucp_worker_progress. Returns the number of events.
  std::size_t progress();
  /// Returns true if the event descriptor will signal the next event, false if there is work to
  /// progress now.
  bool arm();

  /// Creates an endpoint. `on_error(argument, endpoint, status)` is called at most once, inside
  /// progress().
  ucp_ep_h connect(std::span<const std::byte> address, ucp_err_handler_cb_t on_error,
                   void* argument);
  /// Ways to close an endpoint. kForce: at once, failing operations in flight. kFlush: after
  /// operations in flight.
  enum class Close { kForce, kFlush };
  void close(ucp_ep_h endpoint, Close how);
  /// Returns the number of endpoints that are still closing.
  std::size_t num_closing() const { return closing_.size(); }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::byte> address_;
  std::vector<void*> closing_;
  std::vector<ListeningSocket> ports_;  ///< Ports at which UCX listens for this worker.
};

}  // namespace weft::transfer
