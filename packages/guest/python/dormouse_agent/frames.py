"""Frames on the host's connection: layout and JSON encoding."""

import struct

from dormouse_json import make_encoder

HELLO, REQUEST, ITEM, DATA, END, ERROR, CANCEL, CREDIT = range(1, 9)

HEADER = struct.Struct(">IBBI")
CREDIT_BODY = struct.Struct(">I")

encode_json = make_encoder(allow_nan=False)
