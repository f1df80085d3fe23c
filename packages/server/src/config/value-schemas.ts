import { isAbsolute } from 'node:path'
import { z } from 'zod'

const MAX_PORT = 65_535
/** The longest delay of a Node.js timer; longer ones fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1
const HOST_NAME = /^(?!-)[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63})*$/

export const MAX_DAYS = 36_500

export const address = z.union(
  [z.ipv4(), z.ipv6(), z.string().regex(HOST_NAME)],
  'must be an IP address or a host name',
)
export const ipAddress = z.union([z.ipv4(), z.ipv6()], 'must be an IP address')
/** 0 means any free port. */
export const port = z.int().min(0).max(MAX_PORT)
export const timerMs = z.int().min(0).max(MAX_TIMER_MS)
export const bytes = z.int().min(0)
/** A relative path would name another file whenever the server starts in another directory. */
export const absolutePath = z.string().refine(isAbsolute, 'must be an absolute path')
