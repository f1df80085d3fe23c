import type { ComponentChildren } from 'preact'

/** A control sequence; only colours and weights (`m`) mean something here. */
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this reads.
  /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1a\x1c-\x1f]|\x1b/g

interface Pen {
  readonly colour: string | undefined
  readonly background: string | undefined
  readonly classes: readonly string[]
}

const PLAIN: Pen = { colour: undefined, background: undefined, classes: [] }
const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']

/** Text of a program, with the colours that it asks for. */
export function AnsiText({ text, class: name }: { text: string; class: string }) {
  return <pre class={`ansi ${name}`}>{text.includes('\x1b') ? spans(text) : text}</pre>
}

function spans(text: string) {
  const parts: ComponentChildren[] = []
  let pen = PLAIN
  let at = 0
  const add = (end: number) => {
    if (end <= at) return
    const piece = text.slice(at, end)
    if (pen === PLAIN) parts.push(piece)
    else {
      const classes = [
        ...pen.classes,
        pen.colour && `fg-${pen.colour}`,
        pen.background && `bg-${pen.background}`,
      ]
      parts.push(<span class={classes.filter(Boolean).join(' ')}>{piece}</span>)
    }
  }
  for (const match of text.matchAll(SEQUENCE)) {
    add(match.index)
    at = match.index + match[0].length
    if (match[2] === 'm') pen = penAfter(pen, match[1] ?? '')
  }
  add(text.length)
  return parts
}

function penAfter(before: Pen, codes: string): Pen {
  let pen = before
  const numbers = codes.split(/[;:]/).map(Number)
  for (let index = 0; index < numbers.length; index += 1) {
    const code = numbers[index] ?? 0
    if (code === 0) pen = PLAIN
    else if (code === 1) pen = { ...pen, classes: [...pen.classes, 'bold'] }
    else if (code === 2) pen = { ...pen, classes: [...pen.classes, 'faint'] }
    else if (code === 3) pen = { ...pen, classes: [...pen.classes, 'italic'] }
    else if (code === 4) pen = { ...pen, classes: [...pen.classes, 'underline'] }
    else if (code === 22 || code === 23 || code === 24) pen = { ...pen, classes: [] }
    else if (code === 39) pen = { ...pen, colour: undefined }
    else if (code === 49) pen = { ...pen, background: undefined }
    else if (code === 38 || code === 48) {
      const colour = indexed(numbers, index)
      pen = code === 38 ? { ...pen, colour } : { ...pen, background: colour }
      index += numbers[index + 1] === 2 ? 4 : 2
    } else if (code >= 30 && code <= 37) pen = { ...pen, colour: NAMES[code - 30] }
    else if (code >= 90 && code <= 97) pen = { ...pen, colour: NAMES[code - 90] }
    else if (code >= 40 && code <= 47) pen = { ...pen, background: NAMES[code - 40] }
  }
  return pen
}

/** Of 256 or 16 million colours, the nearest of the eight that both themes can show well. */
function indexed(numbers: readonly number[], at: number): string | undefined {
  if (numbers[at + 1] === 2) return nearest(numbers.slice(at + 2, at + 5).map((part) => part / 255))
  const code = numbers[at + 2] ?? 0
  if (code < 16) return NAMES[code % 8]
  if (code >= 232) return undefined
  const cube = code - 16
  return nearest([Math.floor(cube / 36) / 5, (Math.floor(cube / 6) % 6) / 5, (cube % 6) / 5])
}

function nearest([red = 0, green = 0, blue = 0]: readonly number[]): string | undefined {
  const highest = Math.max(red, green, blue)
  if (highest - Math.min(red, green, blue) < 0.15) return undefined
  const bit = (part: number) => (part > highest * 0.6 ? 1 : 0)
  return NAMES[bit(red) + 2 * bit(green) + 4 * bit(blue)]
}
