import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { OUTPUT_CHARS } from './limits.mjs'

/**
 * Replaces process.stdout, process.stderr and console. What is written becomes messages on the control socket, so that
 * it keeps its order with results and errors. Programs that the code starts write to the pipes of the process.
 * @param {import('./control.mjs').Control} control
 */
export function replaceOutput(control) {
  const streams = { stdout: streamTo(control, 'stdout', 1), stderr: streamTo(control, 'stderr', 2) }
  for (const [name, value] of Object.entries(streams))
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true })
  Object.defineProperty(globalThis, 'console', {
    value: new Console({ ...streams, colorMode: false }),
    configurable: true,
    writable: true,
  })
  return streams
}

/**
 * @param {import('./control.mjs').Control} control
 * @param {'stdout' | 'stderr'} type
 * @param {number} fd
 */
function streamTo(control, type, fd) {
  const decoder = new StringDecoder('utf8')
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      const text = typeof chunk === 'string' ? textOf(chunk, encoding) : decoder.write(chunk)
      for (let from = 0; from < text.length; from += OUTPUT_CHARS)
        control.send({ type, data: text.slice(from, from + OUTPUT_CHARS) })
      done()
    },
    // User code may end the stream. Later output must still arrive.
    emitClose: false,
    autoDestroy: false,
  })
  stream.end = () => stream
  stream.destroy = () => stream
  return Object.assign(stream, { fd, isTTY: false })
}

/**
 * @param {string} chunk
 * @param {string} encoding
 */
function textOf(chunk, encoding) {
  return encoding === 'utf8' || encoding === 'utf-8'
    ? chunk
    : Buffer.from(chunk, /** @type {BufferEncoding} */ (encoding)).toString()
}
