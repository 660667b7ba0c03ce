#include "actors/system/internal/process_identity.h"

#include <array>
#include <span>
#include <utility>

#include "actors/system/system.h"
#include "core/base/aead.h"
#include "core/base/platform.h"

namespace weft::actors {

namespace {

ProcessId new_process_id() {
  std::array<std::uint64_t, 1> id{};
  while (id[0] == 0) fill_with_random(std::as_writable_bytes(std::span(id)));
  return ProcessId(id[0]);
}

}  // namespace

ProcessIdentity::ProcessIdentity(const SystemOptions& options)
    : id_(new_process_id()), name_(options.name) {
  introduction_.process = {id_, name_, Address{}};
  introduction_.pid = process_id();
  introduction_.binary_name = options.binary_name;
  introduction_.binary_hash = options.binary_hash;
  introduction_.run = options.run;
  introduction_.has_aes = Aead::has_aes();
}

PeerDescription ProcessIdentity::introduction() const {
  const std::lock_guard lock(mutex_);
  return introduction_;
}

void ProcessIdentity::set_address(const Address& address) {
  const std::lock_guard lock(mutex_);
  introduction_.process.address = address;
}

}  // namespace weft::actors
