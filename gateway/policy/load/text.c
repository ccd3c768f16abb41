/* text.c: UTF-8 by RFC 3629. */
#include "gateway/policy/load/text.h"

size_t text_utf8(const char *text, uint32_t *ret) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = (uint8_t)text[0];
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 0 || first > 0xf4) return 0;
    uint32_t point = size == 1 ? first : first & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        uint8_t c = (uint8_t)text[i];
        if ((c & 0xc0) != 0x80) return 0; /* also ends at the NUL */
        point = point << 6 | (c & 0x3f);
    }
    if (point < least[size] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return 0;
    *ret = point;
    return size;
}

bool text_showable(uint32_t point) {
    if (point < 0x20 || (point >= 0x7f && point <= 0xa0) || point == 0xad) return false;
    if (point >= 0x200b && point <= 0x200f) return false;
    if (point >= 0x2028 && point <= 0x202e) return false;
    if (point >= 0x2060 && point <= 0x206f) return false;
    return point != 0x061c && point != 0xfeff && (point < 0xfff0 || point > 0xffff) &&
           point < 0xe0000;
}

bool text_is_ascii(const char *text) {
    for (; *text != '\0'; text++) {
        if ((uint8_t)*text >= 0x80) return false;
    }
    return true;
}
