#include <sinter/kernels/faults.h>
#include <sinter/runtime/text.h>

namespace sinter {

std::string label_sentence(const char* who, const Fault& fault, bool has_zero) {
  return text(who, ": label ", fault.value, " at row ", fault.position, " is outside [0, ",
              fault.bound, ") for ", fault.bound, " classes",
              fault.value == fault.bound && !has_zero ? "; labels start at 0" : "");
}

std::string index_sentence(const char* op, const Fault& fault) {
  return text(op, ": index ", fault.value, " at position ", fault.position, " is outside [0, ",
              fault.bound, ")");
}

}  // namespace sinter
