import { randomBytes } from 'node:crypto'

/** The name of an unnamed conversation, of its session and of its sandbox. It is too long to guess. */
const NAME = /^mcp-[0-9a-f]{32}$/

export function newConversationName(): string {
  return `mcp-${randomBytes(16).toString('hex')}`
}

export function isConversationName(text: string): boolean {
  return NAME.test(text)
}
