import type { FileStatAnswer } from '@dormouse/contracts/http'
import type { FileStat } from '@dormouse/engine'
import type { FastifyReply } from 'fastify'

/** The range of four-digit years in ISO 8601. A file may claim any time. */
const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

export function fileView({ mode, modifiedAt, target, ...stat }: FileStat): FileStatAnswer {
  return {
    path: stat.path,
    name: stat.name,
    type: stat.type,
    sizeBytes: stat.sizeBytes,
    mode: mode.toString(8).padStart(4, '0'),
    uid: stat.uid,
    gid: stat.gid,
    user: stat.user,
    group: stat.group,
    modifiedAt: dateOf(modifiedAt).toISOString(),
    ...(target === undefined ? {} : { target }),
  }
}

export function lastModified({ modifiedAt }: FileStat): string {
  return dateOf(modifiedAt).toUTCString()
}

/** Weak: two writes of the same length within a millisecond get the same tag. */
export function etagOf({ modifiedAt, sizeBytes }: FileStat): string {
  return `W/"${modifiedAt.toString(16)}-${sizeBytes.toString(16)}"`
}

export function dateOf(ms: number): Date {
  return new Date(Math.min(Math.max(ms, FIRST_MS), LAST_MS))
}

/** Of an answer with the bytes of a file. */
export function setFileHeaders(reply: FastifyReply, stat: FileStat): void {
  reply
    .type('application/octet-stream')
    // Never a type that a browser would execute with the rights of this origin.
    .header('x-content-type-options', 'nosniff')
    .header('accept-ranges', 'bytes')
    .header('etag', etagOf(stat))
    .header('last-modified', lastModified(stat))
}
