/* Graphs of the convolution and pooling operators, over one, two and three dimensions of space. */
#include "op_build.h"

static void build_conv(fixture *f, int rank, const int64_t *x, const int64_t *w,
                       const weft_attr *attrs, int n)
{
    weft_value a = fixture_input(f, rank, x, true, 1, 0), b = fixture_input(f, rank, w, true, 1, 0);
    out(f, node(f, "conv", (weft_value[]){a, b}, 2, attrs, n));
}
#define CONV(name, X_, W_, ...)                                                                    \
    void name(fixture *f)                                                                          \
    {                                                                                              \
        const int64_t x[] = X_, w[] = W_;                                                          \
        build_conv(f, (int)(sizeof(x) / sizeof(x[0])), x, w, ATTRS(__VA_ARGS__));                  \
    }
CONV(conv_plain, D4(2, 3, 7, 9), D4(5, 3, 3, 2), WEFT_ATTR_PAIR("stride", 1, 1))
CONV(conv_blocks, D4(3, 16, 6, 6), D4(32, 16, 3, 3), WEFT_ATTR_PAIR("padding", 1, 1))
CONV(conv_small_images, D4(13, 35, 3, 2), D4(37, 35, 3, 3), WEFT_ATTR_PAIR("padding", 1, 1))
CONV(conv_chunks, D4(35, 2, 21, 20), D4(33, 2, 3, 2), WEFT_ATTR_PAIR("padding", 1, 1),
     WEFT_ATTR_PAIR("stride", 2, 3), WEFT_ATTR_PAIR("dilation", 1, 2))
CONV(conv_blocks_few, D4(2, 32, 7, 5), D4(48, 32, 3, 2), WEFT_ATTR_PAIR("stride", 2, 1),
     WEFT_ATTR_PAIR("dilation", 1, 2), WEFT_ATTR_PAIR("padding", 2, 1))
CONV(conv_blocks_many, D4(5, 16, 19, 7), D4(16, 16, 3, 3), WEFT_ATTR_PAIR("padding", 1, 1))
CONV(conv_stride, D4(1, 4, 9, 8), D4(6, 4, 3, 3), WEFT_ATTR_PAIR("stride", 2, 3),
     WEFT_ATTR_PAIR("padding", 1, 2))
CONV(conv_dilated, D4(2, 2, 11, 9), D4(3, 2, 3, 3), WEFT_ATTR_PAIR("dilation", 2, 3),
     WEFT_ATTR_PAIR("padding", 2, 1))
CONV(conv_groups, D4(2, 6, 5, 5), D4(9, 2, 3, 3), WEFT_ATTR_INT("groups", 3),
     WEFT_ATTR_PAIR("padding", 1, 1))
CONV(conv_depthwise, D4(1, 5, 6, 7), D4(5, 1, 3, 3), WEFT_ATTR_INT("groups", 5))
/* Strides without a window, and few channels (oneDNN issue 6035). */
CONV(conv_point_stride, D4(2, 3, 9, 7), D4(5, 3, 1, 1), WEFT_ATTR_PAIR("stride", 2, 2))
CONV(conv_point_stride_one, D4(3, 1, 7, 9), D4(2, 1, 1, 1), WEFT_ATTR_PAIR("stride", 3, 2))
CONV(conv_point_stride_more, D4(2, 8, 11, 5), D4(17, 8, 1, 1), WEFT_ATTR_PAIR("stride", 2, 2))
CONV(conv_point, D4(1, 7, 3, 5), D4(3, 7, 1, 1), WEFT_ATTR_PAIR("stride", 1, 1))

/* Convolutions over one and over three dimensions of space. */
CONV(conv_line, D3(2, 3, 12), D3(5, 3, 4), WEFT_ATTR_INT("stride", 2), WEFT_ATTR_INT("padding", 1))
CONV(conv_line_blocks, D3(3, 16, 9), D3(32, 16, 3), WEFT_ATTR_PAIR("padding", 2, 0))
CONV(conv_line_groups, D3(2, 6, 13), D3(4, 3, 3), WEFT_ATTR_INT("groups", 2),
     WEFT_ATTR_INT("dilation", 2))
CONV(conv_volume, D5(2, 3, 5, 6, 7), D5(4, 3, 3, 2, 3), TRIPLE("stride", 2, 1, 2),
     TRIPLE("padding", 1, 1, 0))
CONV(conv_volume_blocks, D5(1, 16, 4, 5, 3), D5(16, 16, 3, 3, 3), TRIPLE("padding", 1, 1, 1))
CONV(conv_volume_groups, D5(1, 4, 7, 5, 6), D5(6, 2, 2, 3, 2), WEFT_ATTR_INT("groups", 2),
     TRIPLE("dilation", 2, 1, 3), TRIPLE("padding", 0, 2, 1))
CONV(conv_volume_depthwise, D5(2, 3, 3, 4, 5), D5(3, 1, 1, 2, 3), WEFT_ATTR_INT("groups", 3))

/* Transposed convolutions: of x [b, o, ...] and w [o, c / groups, ...] to a size. */
static void build_transpose(fixture *f, int rank, const int64_t *x, const int64_t *w,
                            const weft_attr *attrs, int n)
{
    weft_value a = fixture_input(f, rank, x, true, 1, 0), b = fixture_input(f, rank, w, true, 1, 0);
    out(f, node(f, "conv_dx", (weft_value[]){a, b}, 2, attrs, n));
}
#define TRANSPOSE(name, X_, W_, ...)                                                               \
    void name(fixture *f)                                                                          \
    {                                                                                              \
        const int64_t x[] = X_, w[] = W_;                                                          \
        build_transpose(f, (int)(sizeof(x) / sizeof(x[0])), x, w, ATTRS(__VA_ARGS__));             \
    }
TRANSPOSE(transpose_plain, D4(2, 3, 5, 4), D4(3, 5, 3, 2), WEFT_ATTR_PAIR("size", 7, 5))
TRANSPOSE(transpose_twice, D4(2, 6, 4, 3), D4(6, 5, 2, 2), WEFT_ATTR_PAIR("stride", 2, 2),
          WEFT_ATTR_PAIR("size", 8, 6))
TRANSPOSE(transpose_odd, D4(1, 4, 3, 5), D4(4, 2, 3, 3), WEFT_ATTR_PAIR("stride", 2, 3),
          WEFT_ATTR_PAIR("padding", 1, 2), WEFT_ATTR_PAIR("size", 5, 11))
TRANSPOSE(transpose_groups, D4(2, 6, 3, 3), D4(6, 2, 3, 3), WEFT_ATTR_INT("groups", 3),
          WEFT_ATTR_PAIR("stride", 2, 2), WEFT_ATTR_PAIR("padding", 1, 1),
          WEFT_ATTR_PAIR("size", 5, 5))
TRANSPOSE(transpose_dilated, D4(2, 2, 4, 3), D4(2, 3, 3, 3), WEFT_ATTR_PAIR("dilation", 2, 3),
          WEFT_ATTR_PAIR("padding", 2, 1), WEFT_ATTR_PAIR("size", 4, 7))
TRANSPOSE(transpose_line, D3(2, 5, 6), D3(5, 3, 4), WEFT_ATTR_INT("stride", 2),
          WEFT_ATTR_INT("padding", 1), WEFT_ATTR_INT("size", 12))
TRANSPOSE(transpose_volume, D5(1, 4, 2, 3, 2), D5(4, 3, 3, 2, 3), TRIPLE("stride", 2, 1, 2),
          TRIPLE("padding", 1, 1, 0), TRIPLE("size", 3, 2, 5))
TRANSPOSE(transpose_blocks, D4(2, 32, 4, 4), D4(32, 16, 2, 2), WEFT_ATTR_PAIR("stride", 2, 2),
          WEFT_ATTR_PAIR("size", 8, 8))
void conv_line_residual(fixture *f)
{
    weft_value x = X(f, 2, 5, 9), w = X(f, 5, 5, 3), b = X(f, 5);
    weft_value y = node(f, "conv", IN(x, w), ATTRS(WEFT_ATTR_INT("padding", 1)));
    y = node(f, "add", IN(node(f, "bias", IN(y, b), NONE), x), NONE);
    out(f, node(f, "relu", IN(y), NONE));
}
void conv_volume_chain(fixture *f)
{
    weft_value x = X(f, 2, 3, 4, 5, 3), w = X(f, 16, 3, 2, 3, 2), b = X(f, 16);
    weft_value y = node(f, "bias", IN(node(f, "conv", IN(x, w), NONE), b), NONE);
    out(f, node(f, "tanh", IN(y), NONE));
}

/* Convolution, bias and activation, which a device may fuse into one kernel. */
void conv_chain(fixture *f)
{
    weft_value x = X(f, 2, 3, 6, 6), w = X(f, 5, 3, 3, 3), b = X(f, 5);
    weft_value y = node(f, "conv", IN(x, w), ATTRS(WEFT_ATTR_PAIR("padding", 1, 1)));
    out(f, node(f, "relu", IN(node(f, "bias", IN(y, b), NONE)), NONE));
}

void conv_residual(fixture *f)
{
    weft_value x = X(f, 2, 5, 6, 6), w = X(f, 5, 5, 3, 3), b = X(f, 5);
    weft_value y = node(f, "conv", IN(x, w), ATTRS(WEFT_ATTR_PAIR("padding", 1, 1)));
    y = node(f, "add", IN(node(f, "bias", IN(y, b), NONE), x), NONE);
    out(f, node(f, "relu", IN(y), NONE));
}

void conv_residual_other(fixture *f)
{
    weft_value x = X(f, 2, 16, 5, 5), w = X(f, 16, 16, 3, 3), v = X(f, 16, 16, 1, 1);
    weft_value a = node(f, "conv", IN(x, v), NONE);
    weft_value b = node(f, "conv", IN(x, w), ATTRS(WEFT_ATTR_PAIR("padding", 1, 1)));
    out(f, node(f, "relu", IN(node(f, "add", IN(a, b), NONE)), NONE));
}

#define POOL_OF(name, op, x, ...)                                                                  \
    void name(fixture *f)                                                                          \
    {                                                                                              \
        out(f, node(f, op, IN(x), ATTRS(__VA_ARGS__)));                                            \
    }
#define POOL(name, op, ...) POOL_OF(name, op, X(f, 2, 5, 7, 9), __VA_ARGS__)
POOL_OF(maxpool_line, "maxpool", X(f, 2, 3, 11), WEFT_ATTR_INT("kernel", 3),
        WEFT_ATTR_INT("stride", 2), WEFT_ATTR_INT("padding", 1))
POOL_OF(avgpool_line, "avgpool", X(f, 2, 16, 10), WEFT_ATTR_INT("kernel", 4))
POOL_OF(maxpool_volume, "maxpool", X(f, 2, 3, 5, 4, 7), TRIPLE("kernel", 2, 2, 3))
POOL_OF(avgpool_volume, "avgpool", X(f, 1, 2, 5, 6, 7), TRIPLE("kernel", 3, 2, 3),
        TRIPLE("stride", 2, 1, 3), TRIPLE("padding", 1, 0, 1))
void pools_volume_blocks(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 1, 2, 6, 5, 6), X(f, 16, 2, 3, 2, 3)), NONE);
    x = node(
        f, "maxpool", IN(x),
        ATTRS(TRIPLE("kernel", 2, 3, 2), TRIPLE("stride", 1, 1, 2), TRIPLE("padding", 0, 1, 0)));
    out(f, node(f, "avgpool", IN(x), ATTRS(TRIPLE("kernel", 2, 2, 1))));
}
POOL(maxpool, "maxpool", WEFT_ATTR_PAIR("kernel", 2, 2))
POOL(maxpool_odd, "maxpool", WEFT_ATTR_PAIR("kernel", 3, 2), WEFT_ATTR_PAIR("stride", 2, 1),
     WEFT_ATTR_PAIR("padding", 1, 1))
POOL(avgpool, "avgpool", WEFT_ATTR_PAIR("kernel", 2, 3))
POOL(avgpool_odd, "avgpool", WEFT_ATTR_PAIR("kernel", 3, 3), WEFT_ATTR_PAIR("stride", 1, 2),
     WEFT_ATTR_PAIR("padding", 1, 1))
void maxpool_blocks(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 1, 3, 8, 8), X(f, 16, 3, 3, 3)), NONE);
    out(f, node(f, "maxpool", IN(x),
                ATTRS(WEFT_ATTR_PAIR("kernel", 3, 3), WEFT_ATTR_PAIR("stride", 1, 1),
                      WEFT_ATTR_PAIR("padding", 1, 1))));
}
void avgpool_blocks(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 1, 3, 8, 8), X(f, 16, 3, 3, 3)), NONE);
    out(f, node(f, "avgpool", IN(x), ATTRS(WEFT_ATTR_PAIR("kernel", 2, 2))));
}
void global_avgpool(fixture *f)
{
    out(f, node(f, "global_avgpool", IN(X(f, 2, 5, 3, 4)), NONE));
}
void global_line(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 2, 3, 9), X(f, 16, 3, 2)), NONE);
    out(f, node(f, "global_avgpool", IN(x), NONE));
}
void global_volume(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 2, 3, 4, 3, 5), X(f, 16, 3, 2, 1, 2)), NONE);
    out(f, node(f, "global_avgpool", IN(x), NONE));
    out(f, node(f, "global_avgpool", IN(X(f, 2, 3, 2, 3, 2)), NONE));
}
void global_blocks(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 2, 3, 6, 6), X(f, 32, 3, 3, 3)), NONE);
    out(f, node(f, "global_avgpool", IN(x), NONE));
}
