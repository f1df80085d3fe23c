import { findUint, getUint, type Message } from './message.ts'

/**
 * How many raw bytes follow a record. Most images consist of records only. These contain data between records, with a
 * length that depends on the record before. `rest` is everything up to the end of the file.
 */
export type TrailingBytes = (record: Message, index: number) => number | 'rest'

export const MAGIC = {
  inventory: 0x58313116,
  common: 0x54564319,
  service: 0x55105940,
  pipesData: 0x56453709,
  fifoData: 0x59333054,
  socketQueues: 0x56264026,
  tcpStream: 0x51465506,
  ghostFile: 0x52583605,
  sharedMemory: 0x46283044,
  messageQueues: 0x55453737,
  semaphores: 0x59573019,
  bpfMapData: 0x64324033,
} as const

const roundUp = (value: number, to: number) => Math.ceil(value / to) * to
const count = (record: Message, no: number) => Number(getUint(record, no))

const pipeData: TrailingBytes = (record) => count(record, 2)

export const TRAILING_BYTES: ReadonlyMap<number, TrailingBytes> = new Map<number, TrailingBytes>([
  [MAGIC.pipesData, pipeData],
  [MAGIC.fifoData, pipeData],
  [MAGIC.socketQueues, (record) => count(record, 2)],
  [MAGIC.tcpStream, (record) => count(record, 1) + count(record, 3)],
  // The first record describes the file. If its `chunks` flag is set, each further record is a piece of a sparse file,
  // followed by its bytes.
  [MAGIC.ghostFile, ghostFileBytes()],
  [MAGIC.sharedMemory, (record) => (findUint(record, 3) === 1n ? 0 : roundUp(Number(getUint(record, 2)), 4))],
  // A queue's record is followed by its messages, which are records of another type. They are kept unparsed.
  [MAGIC.messageQueues, () => 'rest'],
  [MAGIC.semaphores, (record) => roundUp(count(record, 2) * 2, 8)],
  [MAGIC.bpfMapData, (record) => count(record, 2) + count(record, 3)],
])

function ghostFileBytes(): TrailingBytes {
  return (record, index) => {
    if (index > 0) return count(record, 1)
    return findUint(record, 9) === 1n ? 0 : 'rest'
  }
}
