#include "transfer/wire_ucx/internal/ucx_worker.h"

#include <dlfcn.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <mutex>

#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "transfer/wire_ucx/internal/network_text.h"
#include "transfer/wire_ucx/ucx_wire.h"

#include <ucs/async/async_fwd.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <ucs/sys/sock.h>

#include "core/crash/crash_report.h"

/// Overrides shmget() so that System V segments are private to this user. UCX asks for mode 0660,
/// with which everybody of the user's group could read and change tensors. UCX's libraries call
/// this definition, since the dynamic linker searches the executable first.
extern "C" int shmget(key_t key, std::size_t size, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_shmget, key, size, flags & ~(S_IRWXG | S_IRWXO)));
}

namespace weft::transfer {
namespace {

/// Ports of the worker that this thread is creating, recorded by listen(). Null at other times.
thread_local std::vector<ListeningSocket>* ports_of_new_worker = nullptr;
/// True while this thread creates an endpoint.
thread_local bool creates_endpoint = false;

ino_t inode_of(int fd) {
  struct stat about = {};
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

}  // namespace
}  // namespace weft::transfer

/// Overrides listen() to record the ports that UCX opens for a worker, since UCX does not expose
/// their descriptors.
extern "C" int listen(int fd, int backlog) noexcept {
  using namespace weft::transfer;
  const auto status = static_cast<int>(::syscall(SYS_listen, fd, backlog));
  if (status == 0 && ports_of_new_worker != nullptr)
    ports_of_new_worker->push_back({fd, inode_of(fd)});
  return status;
}

/// Overrides UCX's sending of its own connection messages over TCP. A new endpoint sends one on a
/// socket that it has accepted from the same peer. If the peer has died meanwhile, UCX 1.13.1 makes
/// the endpoint fail before it may, and aborts (uct_tcp_ep_connect, uct_tcp_ep_destroy_progress).
/// Success is returned then; the next read reports the dead peer.
extern "C" ucs_status_t ucs_socket_send(int fd, const void* data, std::size_t length) {
  static const auto original =
      reinterpret_cast<decltype(&ucs_socket_send)>(::dlsym(RTLD_NEXT, "ucs_socket_send"));
  const ucs_status_t status = original(fd, data, length);
  return weft::transfer::creates_endpoint ? UCS_OK : status;
}

namespace weft::transfer {
namespace {

constexpr int kProgressRounds = 64;

ucs_log_func_rc_t discard_log(const char*, unsigned, const char*, ucs_log_level_t level,
                              const ucs_log_component_config_t*, const char*, va_list) {
  return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

ucp_context_h make_context(Transports transports, const std::string& interfaces) {
  ucp_config_t* config = nullptr;
  check_ucs(ucp_config_read(nullptr, nullptr, &config), "reading UCX's configuration");
  const auto set = [&](const char* name, const char* value) {
    return ucp_config_modify(config, name, value);
  };
  ucs_status_t status = UCS_OK;
  if (transports == Transports::kTcp) {
    status = set("TLS", "tcp");
    if (status == UCS_OK && !interfaces.empty()) status = set("NET_DEVICES", interfaces.c_str());
    // Otherwise UCX joins endpoints whose sockets do not send yet; see Peer.
    if (status == UCS_OK) status = set("RESOLVE_REMOTE_EP_ID", "n");
  } else {
    // Not posix: containers often limit /dev/shm to 64 MiB, and exceeding it raises SIGBUS.
    status = set("TLS", "sysv");
    // UCX would otherwise exclude shared memory when peer error handling is on.
    if (status == UCS_OK) status = set("MM_ERROR_HANDLING", "y");
    // ProcessWatch reports dead peers. UCX 1.13.1 may crash in its own check of peers if one has
    // just died (ucp_ep_do_uct_ep_am_keepalive).
    if (status == UCS_OK) status = set("KEEPALIVE_INTERVAL", "inf");
    // While a receiver's queue is full, its sender spins instead of sleeping, which on busy cores
    // keeps the receiver from emptying the queue. 1 MiB took 10 ms with the default queue of 0.5
    // MiB, and 0.2 ms with this one of 7.5 MiB. (A segment's length has 16 bits.)
    if (status == UCS_OK) status = set("MM_SEG_SIZE", "61440");
    if (status == UCS_OK) status = set("MM_FIFO_SIZE", "128");
    if (status == UCS_OK) status = set("MM_RX_BUFS_GROW", "128");
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  if (status == UCS_OK) status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK && transports == Transports::kTcp && descriptor_shortage().empty())
    throw_error(ErrorCode::kUnavailable, "starting UCX with tcp on {}: {}; {}",
                describe_network(interfaces), ucs_status_string(status), network_advice());
  check_ucs(status, transports == Transports::kTcp ? "starting UCX with tcp"
                                                   : "starting UCX with shared memory");
  return context;
}

/// Removes UCX's handlers of ports that are closed.
///
/// When a process has no descriptor left for an incoming connection, UCX 1.13 closes the port but
/// keeps the handler of its descriptor. It would then refuse the next port with that number
/// (UCS_ERR_ALREADY_EXISTS) for the life of the process.
void remove_stale_handlers(const std::vector<ListeningSocket>& ports) {
  for (const ListeningSocket& port : ports) {
    if (inode_of(port.fd) != port.inode) ucs_async_remove_handler(port.fd, 1);
  }
}

}  // namespace

/// UCX installs crash handlers that print a back trace without names. It also logs to standard
/// output, even about dead peers, which are reported as an Error here. If UCX_LOG_LEVEL is set, the
/// log stays.
void restore_process_settings() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_log_push_handler(&discard_log);
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
    report_crashes();
  });
}

void check_ucs(ucs_status_t status, const char* doing) {
  if (status == UCS_OK) return;
  const std::string shortage = descriptor_shortage();
  throw_error(ErrorCode::kUnavailable, "{}: {}", doing,
              shortage.empty() ? ucs_status_string(status) : shortage);
}

UcxWorker::UcxWorker(Transports transports, const std::string& interfaces,
                     ucp_am_recv_callback_t handler, void* argument) {
  restore_process_settings();
  context_ = make_context(transports, interfaces);
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  try {
    ports_of_new_worker = &ports_;
    const ucs_status_t created = ucp_worker_create(context_, &params, &worker_);
    ports_of_new_worker = nullptr;
    check_ucs(created, "creating a UCX worker");
    ucp_am_handler_param_t am = {};
    am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    am.id = 0;
    am.cb = handler;
    am.arg = argument;
    am.flags = UCP_AM_FLAG_WHOLE_MSG;
    check_ucs(ucp_worker_set_am_recv_handler(worker_, &am), "registering for UCX messages");
    check_ucs(ucp_worker_get_efd(worker_, &event_fd_), "getting UCX's event descriptor");
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    check_ucs(ucp_worker_get_address(worker_, &address, &size), "getting UCX's address");
    const auto* bytes = reinterpret_cast<const std::byte*>(address);
    address_.assign(bytes, bytes + size);
    ucp_worker_release_address(worker_, address);
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

UcxWorker::~UcxWorker() {
  for (void* request : closing_) ucp_request_free(request);
  remove_stale_handlers(ports_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::size_t UcxWorker::progress() {
  std::size_t events = 0;
  for (int round = 0; round < kProgressRounds; ++round) {
    const unsigned count = ucp_worker_progress(worker_);
    if (count == 0) break;
    events += count;
  }
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
  return events;
}

bool UcxWorker::arm() { return ucp_worker_arm(worker_) == UCS_OK; }

ucp_ep_h UcxWorker::connect(std::span<const std::byte> address, ucp_err_handler_cb_t on_error,
                            void* argument) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = argument;
  ucp_ep_h endpoint = nullptr;
  creates_endpoint = true;
  const ucs_status_t created = ucp_ep_create(worker_, &params, &endpoint);
  creates_endpoint = false;
  check_ucs(created, "creating a UCX endpoint");
  return endpoint;
}

void UcxWorker::close(ucp_ep_h endpoint, Close how) {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = how == Close::kForce ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  void* request = ucp_ep_close_nbx(endpoint, &params);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) closing_.push_back(request);
}

}  // namespace weft::transfer
