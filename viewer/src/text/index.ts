/** Every word that the viewer says, in English and Chinese. What was traced is never translated. */
import { useStored } from "../ui/stored";
import { en } from "./en";
import { zh } from "./zh";

export type Catalogue = typeof en;
export type Language = "en" | "zh";

export function useLanguage(): [Language, (language: Language) => void] {
  const [stored, setStored] = useStored("language");
  const language = stored === "en" || stored === "zh" ? stored : navigator.language.startsWith("zh") ? "zh" : "en";
  return [language, setStored];
}

export function useText(): Catalogue {
  const [language] = useLanguage();
  return language === "zh" ? zh : en;
}
