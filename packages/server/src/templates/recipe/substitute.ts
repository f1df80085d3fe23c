import { DormouseError } from '@dormouse/contracts'

/** `$name`, `${name}`, `${name:-default}` and `${name:+other}`, with `\` before a dollar that is meant as such. */
const REFERENCE =
  /\\(?<escaped>[\\$])|\$(?:(?<plain>[A-Za-z_]\w*)|\{(?<name>[A-Za-z_]\w*)(?::(?<mode>[-+?])(?<word>(?:[^{}\\]|\\.)*))?\})/g

/** Replaces variables as a Dockerfile does. */
export function substitute(text: string, variables: Readonly<Record<string, string | undefined>>): string {
  return text.replace(REFERENCE, (_whole, ...rest) => {
    const groups = rest.at(-1) as Record<string, string | undefined>
    if (groups['escaped'] !== undefined) return groups['escaped']
    const name = groups['plain'] ?? groups['name'] ?? ''
    const value = Object.hasOwn(variables, name) ? variables[name] : undefined
    const word = () => substitute(groups['word'] ?? '', variables)
    if (groups['mode'] === '-') return value || word()
    if (groups['mode'] === '+') return value ? word() : ''
    if (groups['mode'] === '?' && !value)
      throw new DormouseError('invalid_argument', `The variable ${name} is not set: ${word()}`)
    return value ?? ''
  })
}
