import type { CommandIo } from './command-io.ts'

type Env = CommandIo['env']

/** The longest piece of one escape sequence of kitty. */
const KITTY_PIECE = 4096

/**
 * The escape sequence that shows a PNG in the terminal. Undefined when the terminal does not say in its environment
 * that it can show one. A multiplexer between the two would print the sequence as text.
 */
export function terminalImage(base64: string, env: Env): string | undefined {
  if (env['TMUX'] || env['STY']) return undefined
  const png = Buffer.from(base64, 'base64')
  // Encoded again: the sandbox must not choose what the terminal reads.
  const encoded = png.toString('base64')
  if (isKitty(env)) return kittyImage(encoded)
  if (['iTerm.app', 'WezTerm'].includes(env['TERM_PROGRAM'] ?? ''))
    return `\x1b]1337;File=inline=1;size=${png.byteLength}:${encoded}\x07`
  return undefined
}

function isKitty(env: Env): boolean {
  return env['TERM'] === 'xterm-kitty' || env['TERM'] === 'xterm-ghostty' || env['TERM_PROGRAM'] === 'ghostty'
}

function kittyImage(encoded: string): string {
  const pieces = encoded.match(new RegExp(`.{1,${KITTY_PIECE}}`, 'g')) ?? []
  return pieces
    .map((piece, index) => {
      const more = index < pieces.length - 1 ? 1 : 0
      return `\x1b_G${index === 0 ? 'a=T,f=100,' : ''}m=${more};${piece}\x1b\\`
    })
    .join('')
}
