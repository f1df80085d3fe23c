import DOMPurify from 'dompurify'
import { useEffect, useRef } from 'preact/hooks'

/** A formula as MathML, which browsers set themselves. The library is loaded with the first formula. */
export function Latex({ source }: { source: string }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    void import('temml').then(({ default: temml }) => {
      const isBlock = /^\s*(\$\$|\\\[|\\begin)/.test(source)
      const inner = source.trim().replace(/^(?:\$\$?|\\[[(])|(?:\$\$?|\\[\])])$/g, '')
      const markup = temml.renderToString(inner, { throwOnError: false, displayMode: isBlock, trust: false })
      const clean = DOMPurify.sanitize(markup, {
        USE_PROFILES: { mathMl: true },
        FORBID_ATTR: ['href', 'style'],
        RETURN_DOM_FRAGMENT: true,
      })
      box.current?.replaceChildren(clean)
    })
  }, [source])
  return (
    <div class="latex" ref={box}>
      {source}
    </div>
  )
}
