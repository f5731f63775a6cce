# The examples as a user calls them.
if(NOT TARGET mnist)
  return()
endif()
sinter_add_test(example_xor examples xor)
sinter_add_test(example_regression examples regression)

# 2,000 images and ten epochs: an accuracy that a broken gradient or mask does not reach. Without
# the data set the test says so instead of failing.
sinter_add_test(example_mnist examples mnist --train-items 2000 --epochs 10 --batch-size 64 --no-progress)
set_tests_properties(example_mnist PROPERTIES
  PASS_REGULAR_EXPRESSION "test accuracy [89][0-9][.][0-9]% .10000 images., 10 epochs, [0-9.]+ s, [0-9]+ images/s, device"
  SKIP_REGULAR_EXPRESSION "found no data in")

# The second epoch from the checkpoint of the first gives the weights of both in one go.
sinter_add_test(example_mnist_resume examples sh -c "d=$(mktemp -d) && trap 'rm -r \"$d\"' EXIT \
  && m='$<TARGET_FILE:mnist> --train-items 500 --epochs 2 --no-progress' \
  && $m --save $d/run --keep 2 --weights $d/a && $m --resume $d/run.1 --weights $d/b \
  && cmp $d/a $d/b && ! $m --resume $d/a")
set_tests_properties(example_mnist_resume PROPERTIES
  PASS_REGULAR_EXPRESSION "a is no checkpoint; load_weights"
  SKIP_REGULAR_EXPRESSION "found no data in")

# 76.4 % on Fashion-MNIST.
sinter_add_test(example_lenet examples lenet --train-items 2000 --epochs 10)
set_tests_properties(example_lenet PROPERTIES
  PASS_REGULAR_EXPRESSION "test accuracy [789][0-9][.][0-9]% on"
  SKIP_REGULAR_EXPRESSION "found no data in")

function(sinter_add_example_test name expected)
  sinter_add_test(${name} examples mnist ${ARGN})
  set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")
endfunction()
sinter_add_example_test(example_mnist_help "--batch-size INT" --help)
sinter_add_example_test(example_mnist_no_folder
  "mnist: .*${PROJECT_SOURCE_DIR}/no-such-folder.*train-images-idx3-ubyte" --data no-such-folder)
sinter_add_example_test(example_mnist_bad_model
  "mnist: Sequential::parse: unknown layer \"rleu\"" --model "flatten -> rleu")
sinter_add_example_test(example_mnist_bad_device "mnist: unknown device \"gpu\"" --device gpu)
sinter_add_example_test(example_mnist_no_such_gpu "mnist: device cuda:99 " --device cuda:99)
