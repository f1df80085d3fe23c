import { AnsiText } from './ansi-text.tsx'
import { HtmlFrame } from './html-frame.tsx'
import { JsonTree } from './json-tree.tsx'
import { Latex } from './latex.tsx'

interface ResultProps {
  readonly data: Readonly<Record<string, unknown>>
  readonly isMain: boolean
}

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const
const BASE64 = /^[A-Za-z0-9+/=\s]*$/

/** A value that code displayed, in its richest form. */
export function ResultView({ data, isMain }: ResultProps) {
  return (
    <div class={isMain ? 'result main' : 'result'}>
      <Richest data={data} />
    </div>
  )
}

function Richest({ data }: { data: ResultProps['data'] }) {
  const text = (type: string) => (typeof data[type] === 'string' ? data[type] : undefined)
  const plain = text('text/plain')
  const svg = text('image/svg+xml')
  if (svg !== undefined) return <img class="picture" src={svgUrl(svg)} alt={plain ?? 'drawing'} />
  for (const type of IMAGES) {
    const encoded = text(type)
    if (encoded !== undefined && BASE64.test(encoded))
      return <img class="picture" src={`data:${type};base64,${encoded}`} alt={plain ?? 'picture'} />
  }
  const html = text('text/html')
  if (html !== undefined) return <HtmlFrame html={html} />
  const latex = text('text/latex')
  if (latex !== undefined) return <Latex source={latex} />
  if (data['application/json'] !== undefined) return <JsonTree value={data['application/json']} />
  const markdown = text('text/markdown')
  return <AnsiText text={plain ?? markdown ?? JSON.stringify(data, undefined, 2)} class="value" />
}

/** As an image a drawing runs no script and loads nothing. */
function svgUrl(svg: string): string {
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`
}
