/** Frames from the first one of this directory on are ours. */
const OWN_DIRECTORY = new URL('.', import.meta.url).href
/** Node's way to call a cell, a timer or a handler. */
const HIDDEN = /^\s+at (?:.*\()?node:(?:inspector|internal\/)/

/**
 * Leaves the frames of user code in a text with stacks of errors.
 * @param {string} text
 */
export function keepUserFrames(text) {
  /** @type {string[]} */
  const kept = []
  let isOurs = false
  for (const line of text.split('\n')) {
    const isFrame = /^\s+at /.test(line)
    isOurs = isFrame && (isOurs || line.includes(OWN_DIRECTORY))
    if (!isOurs && !(isFrame && HIDDEN.test(line))) kept.push(line)
    // The last frame opens the list of properties.
    else if (line.endsWith(' {')) kept.push(`${kept.pop() ?? ''} {`)
  }
  return kept.join('\n')
}
