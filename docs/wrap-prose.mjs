const COLUMNS = 118

/** Breaks lines of prose in Markdown so that they stay below 120 columns. Tables and code spans stay whole. */
export function wrapProse(text) {
  return text
    .split('\n')
    .map((line) => (line.startsWith('|') ? line : wrapLine(line)))
    .join('\n')
}

function wrapLine(line) {
  const lines = ['']
  for (const word of line.match(/(?:[^\s`]|`[^`]*`)+/g) ?? []) {
    const extended = `${lines.at(-1)} ${word}`.trimStart()
    if (extended.length <= COLUMNS) lines[lines.length - 1] = extended
    else lines.push(word)
  }
  return lines.join('\n')
}
