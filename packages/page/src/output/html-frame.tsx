import DOMPurify from 'dompurify'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'

const MAX_PX = 640
/** Room for a horizontal scroll bar. */
const SCROLL_BAR_PX = 16
/** Nothing is loaded from anywhere, and nothing runs. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"

/**
 * HTML of a sandbox: sanitised, then shown in a frame without scripts, forms and links to other places. The frame
 * keeps the origin of this page only so that its height can be measured; without scripts that gives it nothing.
 */
export function HtmlFrame({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null)
  const [height, setHeight] = useState(80)
  const source = useMemo(() => documentOf(html), [html])
  const observer = useRef<ResizeObserver | undefined>(undefined)
  const observe = () => {
    // The body, not the document: that is never lower than the frame.
    const body = frame.current?.contentDocument?.body
    if (body === undefined || body === null) return
    observer.current?.disconnect()
    observer.current = new ResizeObserver(() =>
      setHeight(Math.min(MAX_PX, Math.ceil(body.getBoundingClientRect().height) + SCROLL_BAR_PX)),
    )
    observer.current.observe(body)
  }
  useEffect(() => () => observer.current?.disconnect(), [])
  return (
    <iframe
      ref={frame}
      class="html"
      title="Output of the sandbox"
      sandbox="allow-same-origin"
      referrerpolicy="no-referrer"
      srcdoc={source}
      style={{ height: `${height}px` }}
      onLoad={observe}
    />
  )
}

function documentOf(html: string): string {
  const clean = DOMPurify.sanitize(html, {
    USE_PROFILES: { html: true, svg: true, mathMl: true },
    FORBID_TAGS: [
      'form',
      'input',
      'button',
      'textarea',
      'select',
      'link',
      'meta',
      'base',
      'iframe',
      'object',
      'embed',
    ],
    FORBID_ATTR: ['action', 'formaction', 'ping', 'target'],
    ADD_TAGS: ['style'],
    FORCE_BODY: true,
  })
  const theme = getComputedStyle(document.documentElement)
  const variable = (name: string) => theme.getPropertyValue(name)
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>
    html { color-scheme: ${theme.colorScheme}; color: ${variable('--ink')}; background: transparent }
    body { margin: 0; font: 13px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
    a { color: inherit; pointer-events: none }
    table { border: 0; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12.5px }
    th, td { padding: 3px 10px; text-align: right; border: 0; border-bottom: 1px solid ${variable('--line')} }
    thead th { border-bottom-color: ${variable('--line-strong')}; font-weight: 600 }
    tbody th { color: ${variable('--ink-2')}; font-weight: 500 }
  </style><body>${clean}`
}
