#include "transfer/wire_ucx/internal/ucx_address.h"

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace weft::transfer {
namespace {

constexpr std::uint32_t kMagic = 0x57465542;  // "WFUB"

std::uint64_t check_of(const UcxAddress& address) {
  const auto hash = [](const std::vector<std::byte>& bytes, std::uint64_t from) {
    return fnv1a(reinterpret_cast<const char*>(bytes.data()), bytes.size(), from);
  };
  std::uint64_t check =
      mix_fingerprint(mix_fingerprint(address.device.value(), address.host.value()), address.pid);
  for (const UcxAddress::RailAddress& rail : address.tcp)
    check = hash(rail.receiving, hash(rail.sending, check));
  return fnv1a(address.network.data(), address.network.size(), hash(address.shm, check));
}

}  // namespace

UcxAddress UcxAddress::of(DeviceId device, HostId host, std::vector<RailAddress> tcp,
                          std::vector<std::byte> shm, std::string network) {
  UcxAddress address{
      kMagic, device, host, ::getpid(), std::move(tcp), std::move(shm), std::move(network), 0};
  address.check = check_of(address);
  return address;
}

UcxAddress UcxAddress::parse(DeviceId device, std::span<const std::byte> bytes) {
  UcxAddress address;
  try {
    address = decode<UcxAddress>(bytes);
  } catch (const Error& error) {
    throw_error(ErrorCode::kInvalidArgument,
                "the transfer address given for device {} is damaged: {}", device, error.message());
  }
  if (address.magic != kMagic || address.check != check_of(address)) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "the transfer address given for device {} is damaged, or not one of this version of Weft",
        device);
  }
  if (address.device != device) {
    throw_error(ErrorCode::kInvalidArgument,
                "the transfer address given for device {} is that of device {}", device,
                address.device);
  }
  return address;
}

}  // namespace weft::transfer
