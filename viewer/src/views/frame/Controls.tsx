import { useEffect } from "react";
import { useLanguage, useText } from "../../text";
import { store, useStored } from "../../ui/stored";

/** Language, theme and the list of keys: at the end of every header. */
export function Controls({ onTheme, onHelp }: { onTheme: () => void; onHelp: () => void }) {
  const t = useText();
  const [language, setLanguage] = useLanguage();
  useEffect(() => {
    document.documentElement.lang = t.lang;
  }, [t.lang]);
  return (
    <>
      <button
        type="button"
        className="button bare icon small"
        lang={language === "zh" ? "en" : "zh"}
        aria-label={t.frame.languageLabel}
        onClick={() => setLanguage(language === "zh" ? "en" : "zh")}
      >
        {language === "zh" ? "EN" : "中"}
      </button>
      <button type="button" className="button bare icon small" aria-label={t.frame.theme} onClick={onTheme}>
        <span aria-hidden>◐</span>
      </button>
      <button type="button" className="button bare icon small" aria-label={t.frame.keys} onClick={onHelp}>
        <span aria-hidden>?</span>
      </button>
    </>
  );
}

/** Follows the chosen theme, or the system's; returns what switches it. */
export function useTheme(): () => void {
  const [theme] = useStored("theme");
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => document.documentElement.classList.toggle("dark", theme ? theme === "dark" : system.matches);
    apply();
    system.addEventListener("change", apply);
    return () => system.removeEventListener("change", apply);
  }, [theme]);
  return () => store("theme", document.documentElement.classList.contains("dark") ? "light" : "dark");
}
