/** `dormouse://SANDBOX/PATH` is a file, `dormouse-plot://SANDBOX/RUN/INDEX` an image that a run displayed. */
export type ResourceUri =
  | { readonly type: 'file'; readonly sandbox: string; readonly path: string }
  | { readonly type: 'plot'; readonly sandbox: string; readonly run: string; readonly index: number }

export const FILE_TEMPLATE = 'dormouse://{sandbox}/{+path}'
export const PLOT_TEMPLATE = 'dormouse-plot://{sandbox}/{run}/{index}'

const FILE = /^dormouse:\/\/(?<sandbox>[^/?#]+)(?<path>\/[^?#]+)$/
const PLOT = /^dormouse-plot:\/\/(?<sandbox>[^/?#]+)\/(?<run>run-[0-9a-z]+)\/(?<index>\d{1,4})$/

export function fileUri(sandbox: string, path: string): string {
  return `dormouse://${sandbox}${path.split('/').map(encodeURIComponent).join('/')}`
}

export function plotUri(sandbox: string, run: string, index: number): string {
  return `dormouse-plot://${sandbox}/${run}/${index}`
}

/** Undefined if it is neither. */
export function parseResourceUri(uri: string): ResourceUri | undefined {
  const file = FILE.exec(uri)?.groups
  if (file !== undefined) {
    const path = decoded(file['path'] ?? '')
    return path === undefined ? undefined : { type: 'file', sandbox: file['sandbox'] ?? '', path }
  }
  const plot = PLOT.exec(uri)?.groups
  if (plot === undefined) return undefined
  const { sandbox = '', run = '', index } = plot
  return { type: 'plot', sandbox, run, index: Number(index) }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
