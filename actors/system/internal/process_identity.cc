#include "actors/system/internal/process_identity.h"

#include <algorithm>
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

void ProcessIdentity::add_interface(InterfaceVersion interface) {
  const std::lock_guard lock(mutex_);
  auto& interfaces = introduction_.interfaces;
  if (std::ranges::find(interfaces, interface) == interfaces.end())
    interfaces.push_back(std::move(interface));
}

}  // namespace weft::actors
