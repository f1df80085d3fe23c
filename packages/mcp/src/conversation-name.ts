import { randomBytes } from 'node:crypto'

/** Of a conversation that nobody named: also the id of its session, and the name of its sandbox. Nobody guesses it. */
const NAME = /^mcp-[0-9a-f]{32}$/

export function newConversationName(): string {
  return `mcp-${randomBytes(16).toString('hex')}`
}

export function isConversationName(text: string): boolean {
  return NAME.test(text)
}
