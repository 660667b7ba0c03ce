#include "mesh/executor/machine_slots.h"

namespace weft::mesh {

std::map<std::string, int> first_slot_by_host(std::span<const actors::HostStatus> hosts) {
  std::map<std::string, int> slots;
  std::map<std::string, int> taken;  // next free slot by machine
  for (const actors::HostStatus& host : hosts) {
    int& next = taken[host.offer.machine];
    slots[host.offer.name] = next;
    next += host.offer.devices;
  }
  return slots;
}

}  // namespace weft::mesh
